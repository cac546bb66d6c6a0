"""Values of a claim that does not hold: the condition is read from the source and its parts are computed again.

    claim("one graph", graphs_of(seen) == 1)      `graphs_of(seen) == 1` does not hold: left = 2, right = 1

In torch: nothing. Read next: nbcompile/tools/claims.py
"""

from __future__ import annotations

import ast
import inspect
import linecache
import reprlib
from collections.abc import Iterator
from types import FrameType
from typing import Any

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200
_short.maxlist = _short.maxtuple = _short.maxdict = 12


def compared(frame: FrameType, position: int) -> str:
    """A sentence with the condition that a frame passes to a call, and its values; "" if the source cannot be read.

    Args:
        frame: the frame, which is executing the call.
        position: the condition's number among the arguments of the call.
    """
    condition = _condition(frame, position)
    if condition is None:
        return ""
    names = {**frame.f_globals, **frame.f_locals}
    failed = _failed(condition, names)
    values = [f"{label} = {_short.repr(value)}" for label, value in _values(failed, names)]
    return f"`{ast.unparse(failed)}` does not hold: {', '.join(values)}" if values else ""


def _condition(frame: FrameType, position: int) -> ast.expr | None:
    positions = inspect.getframeinfo(frame, context=0).positions
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    try:
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except SyntaxError:  # the file has changed since
        return None
    expected = positions and (positions.lineno, positions.col_offset, positions.end_lineno, positions.end_col_offset)
    for call in calls:
        if (call.lineno, call.col_offset, call.end_lineno, call.end_col_offset) == expected:
            return call.args[position] if len(call.args) > position else None
    return None


def _failed(condition: ast.expr, names: dict[str, Any]) -> ast.expr:
    """The part that makes a condition false: the first false operand of `a and b`."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        for part in condition.values:
            found = list(_computed(part, names))
            if not found or not found[0]:
                return _failed(part, names)
    return condition


def _values(condition: ast.expr, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Operands of a condition, with their labels."""
    match condition:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _values(operand, names)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _values(part, names)
        case ast.Compare(left=left, comparators=[right]):
            yield from _labelled([("left", left), ("right", right)], names)
        case ast.Compare(left=left, comparators=others):
            yield from _labelled([(ast.unparse(part), part) for part in (left, *others)], names)
        case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp(generators=[first, *_])]):
            yield from _labelled([(ast.unparse(first.iter), first.iter)], names)
        case ast.Call(func=function, args=arguments):
            subject = [function.value] if isinstance(function, ast.Attribute) else []
            found = list(_labelled([(ast.unparse(part), part) for part in (*subject, *arguments)], names))
            yield from ((label, value) for label, value in found if not inspect.ismodule(value))
        case _:
            yield from _labelled([(ast.unparse(condition), condition)], names)


def _labelled(parts: list[tuple[str, ast.expr]], names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for label, part in parts:
        for value in _computed(part, names):
            yield label, value


def _computed(part: ast.expr, names: dict[str, Any]) -> Iterator[Any]:
    """The value of an expression; nothing if it raises, as state that it reads may have changed since."""
    try:
        yield eval(compile(ast.Expression(part), "<claim>", "eval"), dict(names))
    except Exception:  # noqa: BLE001 - the claim has failed already: this only says more about it
        return
