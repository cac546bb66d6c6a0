"""Groups: many small programs in one module, each compiled by itself, with changes between their calls.

    def p0(x, ...): ...                       def play(compiled):
    def p1(x, ...): ...                           programs = [compiled(p0), compiled(p1)]
                                                  yield [tried(g, x, ...) for g in programs]
                                                  G = 5
                                                  yield [tried(g, x, ...) for g in programs]

A change is checked by the guards of each program separately: in one function, a guard of one program would hide that
another has none. The module with its classes is created once, and the surroundings are observed once.

In torch: nothing. Read next: nbcompile/tools/fuzz/guards.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nbcompile.tools.fuzz.program import Program

MARK = "    programs = ["
_FIRST = re.compile(r"^def p\d+\(", re.MULTILINE)


def module(functions: Sequence[str], prelude: str, play: str) -> str:
    """The text of a group.

    Args:
        functions: each ``def p(...)``.
        prelude: the text before them.
        play: statements that call all of ``programs``.
    """
    texts = "\n".join(text.replace("def p(", f"def p{number}(", 1) for number, text in enumerate(functions))
    compiled = ", ".join(f"compiled(p{number})" for number in range(len(functions)))
    return f"{prelude}\n{texts}\ndef play(compiled):\n{MARK}{compiled}]\n{play}"


def is_group(program: Program) -> bool:
    """Return whether a program is a group."""
    return MARK in program.source


def parts(program: Program, choices: Iterable[Sequence[int]]) -> Iterator[Program]:
    """Smaller groups, each of some of the programs of one."""
    first = _FIRST.search(program.source)
    assert first is not None
    prelude, rest = program.source[: first.start()], program.source[first.start() :]
    functions = {node.name: node for node in ast.parse(rest).body if isinstance(node, ast.FunctionDef)}
    play = "".join(f"{line}\n" for line in rest.partition(MARK)[2].splitlines()[1:])
    for numbers in choices:
        texts = []
        for number in numbers:
            functions[f"p{number}"].name = "p"
            texts.append(ast.unparse(functions[f"p{number}"]) + "\n")
            functions[f"p{number}"].name = f"p{number}"
        yield replace(program, source=module(texts, prelude, play), size=len(numbers))
