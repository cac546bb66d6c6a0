"""Operators of Python by their methods: ``a + b`` is ``__add__``, then ``__radd__``.

    BINARY["+"]       Operator(operator.add, "__add__", ...)
    MIRRORED[operator.lt]     operator.gt: a < b is b > a, where only b is a value of the graph

In torch: torch/_dynamo/variables/builtin.py (``_binops``). Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its function, and its special methods."""

    function: Callable[..., object]
    method: str
    reflected: str
    in_place: Callable[..., object] | None = None
    in_place_method: str = ""


def _arithmetic(name: str, function: Callable[..., object]) -> Operator:
    in_place = getattr(operator, f"i{name}")
    return Operator(function, f"__{name}__", f"__r{name}__", in_place, f"__i{name}__")


BINARY: dict[str, Operator] = {
    "+": _arithmetic("add", operator.add),
    "-": _arithmetic("sub", operator.sub),
    "*": _arithmetic("mul", operator.mul),
    "/": _arithmetic("truediv", operator.truediv),
    "//": _arithmetic("floordiv", operator.floordiv),
    "%": _arithmetic("mod", operator.mod),
    "**": _arithmetic("pow", operator.pow),
    "@": _arithmetic("matmul", operator.matmul),
    "<<": _arithmetic("lshift", operator.lshift),
    ">>": _arithmetic("rshift", operator.rshift),
    "&": Operator(operator.and_, "__and__", "__rand__", operator.iand, "__iand__"),
    "|": Operator(operator.or_, "__or__", "__ror__", operator.ior, "__ior__"),
    "^": Operator(operator.xor, "__xor__", "__rxor__", operator.ixor, "__ixor__"),
}
# A comparison's reflected method is that of the mirrored comparison: for a < b, Python calls b.__gt__(a) last.
COMPARISONS: dict[str, Operator] = {
    "<": Operator(operator.lt, "__lt__", "__gt__"),
    "<=": Operator(operator.le, "__le__", "__ge__"),
    ">": Operator(operator.gt, "__gt__", "__lt__"),
    ">=": Operator(operator.ge, "__ge__", "__le__"),
    "==": Operator(operator.eq, "__eq__", "__eq__"),
    "!=": Operator(operator.ne, "__ne__", "__ne__"),
}
MIRRORED = {
    operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le,
    operator.eq: operator.eq, operator.ne: operator.ne,
}  # fmt: skip
UNARY: dict[str, tuple[Callable[..., object], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}
