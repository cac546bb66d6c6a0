"""Residual programs that only call a graph: fast_call.c does so in their place, without a frame of Python.

    def f(a, b):                                     graph, order (0, 1), item 0
        graph_out = graph(a, b)
        return graph_out[0]

Most compiled functions end as this program, and of a call of a small operator its frame is a twentieth. Anything else
(a value that is built, a second call, an attribute) is no such program and runs as it is.

In torch: nothing; a frame of Python calls each graph. Read next: nbcompile/fast/fast_call.c (run_shortcut)
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType
from typing import Any

Shortcut = tuple[object, tuple[int, ...], int, str, str, int]
"""The graph; the positions of its arguments among the function's; the item of its result that is returned (-1: all);
name, file and line for a traceback."""
_WITHOUT_EFFECT = frozenset(("RESUME", "CACHE", "PRECALL", "PUSH_NULL", "NOP", "COPY_FREE_VARS"))
_VARIADIC = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS
_Step = tuple[str, Any]


def of(code: CodeType) -> Shortcut | None:
    """The shortcut of a residual program; None if it does anything but call a graph in C and return an item."""
    steps = list(_steps(code))
    if code.co_flags & _VARIADIC or code.co_freevars or not steps or steps[0][0] != "LOAD_CONST":
        return None
    graph, rest = steps[0][1], steps[1:]
    names = []
    while rest and rest[0][0] == "LOAD_FAST":
        names.append(rest.pop(0)[1])
    # A function in Python would have a frame of its own, whose caller it may look at.
    if type(graph) is not BuiltinFunctionType or not rest or rest[0] != ("CALL", len(names)):
        return None
    return _shortcut(code, graph, names, _item(rest[1:]))


def _shortcut(code: CodeType, graph: object, names: list[str], item: int | None) -> Shortcut | None:
    own = code.co_varnames[: code.co_argcount]
    if item is None or code.co_kwonlyargcount or not set(names) <= set(own):
        return None
    instructions = dis.get_instructions(code)
    line = next(step.positions.lineno for step in instructions if step.opname == "CALL" and step.positions)
    order = tuple(map(own.index, names))
    return graph, order, item, code.co_name, code.co_filename, line or code.co_firstlineno


def _item(steps: list[_Step]) -> int | None:
    """The item of the call's result that is returned: -1 for all of it; None if a program does anything else."""
    if len(steps) > 2 and steps[0][0] == "STORE_FAST" and steps[1] == ("LOAD_FAST", steps[0][1]):
        steps = steps[2:]
    if steps == [("RETURN_VALUE", None)]:
        return -1
    match steps:
        case [("LOAD_CONST", int() as at), ("BINARY_SUBSCR", _), ("RETURN_VALUE", _)] if at >= 0:
            return at
    return None


def _steps(code: CodeType) -> Iterator[_Step]:
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        # From 3.13 on one instruction may do what two did.
        if name in {"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"}:
            yield from zip(name.replace("_FAST_", "_FAST ").split(), value, strict=True)
        elif name not in _WITHOUT_EFFECT:
            yield name, None if name in {"RETURN_VALUE", "BINARY_SUBSCR"} else value
