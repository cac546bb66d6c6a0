"""Reduction of a program whose results differ: smaller programs, as long as the difference is of the same kind.

    reduced(program, difference, seconds=20)    Program of a few lines

It works on the syntax tree, so it is independent of the kind of program: a statement is removed, a compound statement
is replaced by its body, an expression by one of its operands or a simple constant.

In torch: torch/_functorch/fx_minifier.py reduces graphs. Read next: nbcompile/tools/fuzz/campaign.py
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from nbcompile.tools.fuzz import oracle
from nbcompile.tools.fuzz.compare import Difference, normalised
from nbcompile.tools.fuzz.program import Program

BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
Change = Callable[[], Callable[[], None]]
"""Function that changes a tree and returns a function that undoes the change."""


def cause(program: Program, difference: Difference) -> str:
    """A name that programs of one cause share."""
    if is_named_by_text(difference):
        return f"{program.kind} {difference.aspect}: {normalised(difference.found)}"
    return f"{program.kind} {difference.aspect}: {' '.join(called(program))}"


def is_named_by_text(difference: Difference) -> bool:
    """Return whether a message is enough to identify the cause."""
    return difference.aspect in ("internal", "error")


def called(program: Program) -> list[str]:
    """Names that the compiled part of a program calls or reads, which characterise a small program."""
    tree = ast.parse(program.source)
    functions = [
        node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name != "play"
    ]
    names = set()
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp)):
            names.add(type(node.op).__name__)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
        elif isinstance(node, (ast.With, ast.Try, ast.For, ast.While, ast.Match, ast.Yield, ast.Raise)):
            names.add(type(node).__name__)
    return sorted(names - {"append"})[:8]


def reduced(program: Program, difference: Difference, seconds: float = 20.0) -> tuple[Program, Difference]:
    """The smallest program found within a limit of processor time, and its difference."""
    until = time.process_time() + seconds
    best, shown = program, difference
    tree = ast.parse(program.source)
    progress = True
    # Each kind of change may enable others: repeat all, until a whole round changes nothing.
    while progress and time.process_time() < until:
        progress = False
        for propose in (_without, _unwrapped, _simplified):
            for change in propose(tree):
                if time.process_time() > until:
                    return best, shown
                # The tree itself is changed, and the change undone if the difference disappears: this needs no copies.
                undo = change()
                found = _still(best, tree, difference)
                if found is None:
                    undo()
                else:
                    (best, shown), progress = found, True
    return best, shown


def _still(best: Program, tree: ast.Module, expected: Difference) -> tuple[Program, Difference] | None:
    try:
        source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(source, "<fuzz>", "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    program = replace(best, source=source)
    found = oracle.examine(program).difference
    if found is None or found.aspect != expected.aspect:
        return None
    # A smaller program that fails with another message shows another bug.
    if is_named_by_text(expected) and normalised(found.found) != normalised(expected.found):
        return None
    return program, found


def _lists(tree: ast.AST) -> Iterator[list[ast.AST]]:
    for node in ast.walk(tree):
        for name in BODIES:
            held = getattr(node, name, None)
            if isinstance(held, list) and held and not isinstance(held[0], ast.expr):
                yield held


def _without(tree: ast.Module) -> Iterator[Change]:
    """Remove statements: many at once, then one by one."""
    for held in list(_lists(tree)):
        size = len(held)
        while size:
            # From the end, since a later statement may need an earlier one, and rarely the reverse.
            start = len(held) - size
            while start >= 0:
                yield _cut(held, start, size)
                start -= size
            size //= 2


def _cut(held: list[ast.AST], start: int, size: int) -> Change:
    def change() -> Callable[[], None]:
        before = list(held)
        del held[start : start + size]
        # A body without a statement is a syntax error.
        if not held and isinstance(before[0], ast.stmt):
            held.append(ast.Pass())
        return lambda: held.__setitem__(slice(None), before)

    return change


def _unwrapped(tree: ast.Module) -> Iterator[Change]:
    """Replace a compound statement by its body."""
    for held in list(_lists(tree)):
        for index, node in reversed(list(enumerate(list(held)))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    yield _spliced(held, index, inner)


def _spliced(held: list[ast.AST], index: int, inner: list[ast.AST]) -> Change:
    def change() -> Callable[[], None]:
        before = list(held)
        held[index : index + 1] = copy.deepcopy(inner)
        return lambda: held.__setitem__(slice(None), before)

    return change


def _simplified(tree: ast.Module) -> Iterator[Change]:
    """Replace an expression by one of its operands, or a constant; remove an element of a list."""
    for node in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(node)):
            if isinstance(value, ast.expr) and not isinstance(value, (ast.Constant, ast.Name)):
                parts: list[ast.expr] = [part for part in ast.walk(value) if isinstance(part, ast.expr)][1:6]
                yield from (_given(node, name, part) for part in [*parts, ast.Constant(1)])
            elif isinstance(value, list) and value and isinstance(value[0], (ast.expr, ast.keyword)):
                yield from (_cut(value, index, 1) for index in reversed(range(len(value))))


def _given(node: ast.AST, name: str, part: ast.expr) -> Change:
    def change() -> Callable[[], None]:
        before = getattr(node, name)
        # A copy, because the operand is still in the tree that ``undo`` restores, and a later change would alter both.
        setattr(node, name, copy.deepcopy(part))
        return lambda: setattr(node, name, before)

    return change
