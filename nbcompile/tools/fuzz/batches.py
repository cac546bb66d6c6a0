"""Batches: many small programs in one compiled function, which can be split into single ones again.

    def p0(a): ...                                          def play(compiled):
    def p1(a, b): ...                                           g, given = compiled(f), [[(a0,), (a1,)], [(b0, c0), ...
    def f(inputs): return [p0(*inputs[0]), p1(*inputs[1])]      for inputs in map(list, zip(*given)):
                                                                    yield list(zip(g(inputs), inputs))

A batch needs guards, residual program and C++ compiler only once, and each program may have several sets of arguments.
A batch whose results differ is split until single programs are found.

In torch: nothing. Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import indent

from nbcompile.tools.fuzz import groups
from nbcompile.tools.fuzz.grammar import INDENT
from nbcompile.tools.fuzz.program import Program

_FIRST = re.compile(r"^def p\d+\(", re.MULTILINE)


def module(functions: list[tuple[str, str]], prelude: str, afterwards: str = "") -> str:
    """The text of a batch.

    Args:
        functions: each ``def p(...)`` and the text of its arguments: a list of tuples, equally long for all.
        prelude: the text before them.
        afterwards: statements of ``play`` that follow.
    """
    numbers = range(len(functions))
    called = ", ".join(f"p{number}(*inputs[{number}])" for number in numbers)
    given = ", ".join(inputs for _, inputs in functions)
    texts = "\n".join(text.replace("def p(", f"def p{number}(", 1) for number, (text, _) in enumerate(functions))
    play = (
        f"def play(compiled):\n    g, given = compiled(f), [{given}]\n    for inputs in map(list, zip(*given)):\n"
        f"        yield list(zip(g(inputs), inputs))\n{afterwards}"
    )
    return f"{prelude}\n{texts}\ndef f(inputs):\n    return [{called}]\n\n{play}"


def halves(program: Program) -> Iterator[Program]:
    """The programs of a batch, as two batches; nothing for a single one."""
    if program.size > 1:
        middle = program.size // 2
        yield from _batches(program, (range(middle), range(middle, program.size)))


def members(program: Program, numbers: Iterable[int]) -> Iterator[Program]:
    """Programs of a batch, one by one."""
    yield from _batches(program, [(number,) for number in numbers])


def _batches(program: Program, choices: Iterable[Sequence[int]]) -> Iterator[Program]:
    if groups.is_group(program):
        yield from groups.parts(program, choices)
        return
    first = _FIRST.search(program.source)
    assert first is not None
    prelude = program.source[: first.start()]
    tree = ast.parse(program.source[first.start() :])
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    first_line = functions["play"].body[0]
    assert isinstance(first_line, ast.Assign)
    assert isinstance(first_line.value, ast.Tuple)
    given = first_line.value.elts[1]
    assert isinstance(given, ast.List)
    inputs = [ast.unparse(one) for one in given.elts]
    afterwards = "".join(f"{indent(ast.unparse(node), INDENT)}\n" for node in functions["play"].body[2:])
    for numbers in choices:
        for number in numbers:
            # With their original names: ``module`` numbers the functions of the new batch.
            functions[f"p{number}"].name = "p"
        texts = [ast.unparse(functions[f"p{number}"]) + "\n" for number in numbers]
        chosen = list(zip(texts, [inputs[number] for number in numbers], strict=True))
        source = module(chosen, prelude, afterwards)
        yield replace(program, source=source, size=len(numbers))
