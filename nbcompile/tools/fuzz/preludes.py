"""Definitions that programs of a kind may use: each program contains those that it needs.

    used(prelude, "child = Child(1)")    the imports, ``class Child``, and ``class Base``, its base class

Creating the classes of a whole prelude takes longer than running most programs that use one of them.

In torch: nothing. Read next: nbcompile/tools/fuzz/python.py
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass

WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Definition:
    text: str
    defines: frozenset[str]
    """The names whose use needs the definition; empty: it is always included."""
    uses: frozenset[str]


@functools.lru_cache(maxsize=8)
def _definitions(prelude: str) -> tuple[_Definition, ...]:
    lines = prelude.splitlines(keepends=True)
    found: list[_Definition] = []
    end = 0
    for node in ast.parse(prelude).body:
        assert node.end_lineno is not None
        # Blank lines, comments and decorators before a definition are a part of it.
        text, end = "".join(lines[end : node.end_lineno]), node.end_lineno
        found.append(_Definition(text, frozenset(_given(node)), frozenset(WORD.findall(text))))
    return tuple(found)


def _given(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        # ``@kinds.register`` adds to ``kinds``.
        registers = {
            decorator.value.id
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Attribute)
            and decorator.attr == "register"
            and isinstance(decorator.value, ast.Name)
        }
        return {node.name} | registers
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return set()


def used(prelude: str, text: str) -> str:
    """The part of a prelude that a text needs: imports, the definitions that it uses, and those that these use."""
    definitions = _definitions(prelude)
    referenced = set(WORD.findall(text))
    chosen = [not definition.defines for definition in definitions]
    grown = True
    while grown:
        grown = False
        for number, definition in enumerate(definitions):
            if not chosen[number] and definition.defines & referenced:
                chosen[number] = grown = True
                referenced |= definition.uses
    return "".join(definition.text for definition, is_chosen in zip(definitions, chosen, strict=True) if is_chosen)
