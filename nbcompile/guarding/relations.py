"""Conditions on sizes and numbers, split into a subject and what is expected of it.

    L['n'] == 2                        L['n'],              expected 2
    2 <= L['x'].size()[0]              L['x'].size()[0],    expected >= 2
    ((L['x'].size()[0] % 3)) == 0      L['x'].size()[0] % 3, expected 0

So a cache miss can be explained as that of any other guard: expected 2, actual 3.

In torch: nothing; the message of torch's guard is only the condition. Read next: nbcompile/guarding/explain.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Relation:
    """A condition on one subject."""

    subject: str
    """The compared expression, over ``L`` and ``G``."""
    expected: str
    """``2``, ``>= 2``, ``2 to 10``."""
    value: Callable[[dict[str, object]], object]
    """Function of a frame's locals that computes the subject."""


def relation(condition: str, names: Mapping[str, Any]) -> Relation | None:
    """Split a condition; None if it compares no single expression with numbers, or is no Python.

    Args:
        condition: Python text of a comparison.
        names: global names that it uses, in addition to ``L``.
    """
    try:
        parsed = ast.parse(condition, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(parsed, ast.Compare):
        return None
    # ``2 <= L['x'].size()[0] <= 10`` has three sides and two signs; the one that is no number is the subject.
    sides, signs = [parsed.left, *parsed.comparators], [_SIGNS.get(type(each)) for each in parsed.ops]
    subjects = [each for each in sides if _number(each) is None]
    if len(subjects) != 1 or None in signs:
        return None
    text = ast.unparse(subjects[0])
    expected = _expected(sides, [str(each) for each in signs])
    # ``condition`` is torch's text of a guard, not the user's: it may be evaluated.
    return None if expected is None else Relation(text, expected, eval(f"lambda L: {text}", dict(names)))


def _expected(sides: list[ast.expr], signs: list[str]) -> str | None:
    numbers = [_number(each) for each in sides]
    match numbers, signs:
        case [None, number], [sign]:
            return number if sign == "==" else f"{sign} {number}"
        case [number, None], [sign]:
            return number if sign == "==" else f"{_MIRRORED[sign]} {number}"
        case [low, None, high], ["<=", "<="]:
            return f"{low} to {high}"
    return None


def _number(side: ast.expr) -> str | None:
    """A number as text; None for anything else."""
    try:
        # A negative number is no constant for the parser, but an operation on one.
        value = ast.literal_eval(side)
    except ValueError:
        return None
    return repr(value) if isinstance(value, (int, float)) else None
