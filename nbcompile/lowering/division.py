"""Division that rounds: ``//``, ``%``, ``fmod`` and ``torch.div`` with a rounding mode.

    torch.div(h, g, rounding_mode="trunc")      trunc(float16(h / g))     of two float16 tensors
    torch.div(h, 0.1, rounding_mode="trunc")    trunc(h / 0.1)            by a number, in float32

Kernels of eager mode that divide a float16 or bfloat16 tensor by another round to that type after each step, so a
quotient that was rounded up to a whole number is not truncated below it. They read a divisor of one element as a
float32 number.

In torch: torch/_refs/__init__.py (floor_divide, trunc_divide). Read next: nbcompile/lowering/activations.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.ir.expr import Constant, Expr, apply, cast
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import common_device, elementwise, is_number, promoted
from nbcompile.lowering.pointwise import is_integral, true_div
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten

Round = Callable[[Expr], Expr]


def _truncated(a: Expr, b: Expr, narrow: Round) -> Expr:
    return apply("trunc", narrow(a / b))


def _floored(a: Expr, b: Expr, narrow: Round) -> Expr:
    # The steps of c10::div_floor_floating: they give a quotient that agrees with the remainder, as Python's do.
    quotient, left, zero = narrow(a / b), apply("fmod", a, b), 0.0
    whole = narrow(narrow(a - left) / b)
    signs_differ = apply("ne", apply("lt", b, zero), apply("lt", left, zero))
    is_one_less = apply("logical_and", apply("ne", left, zero), signs_differ)
    whole = apply("where", is_one_less, narrow(whole - 1.0), whole)
    # ``whole`` is a whole number but for rounding: one slightly
    # below it was meant to be that number, not the next lower one.
    down = apply("floor", whole)
    down = apply("where", apply("gt", narrow(whole - down), 0.5), down + 1.0, down)
    down = apply("where", apply("eq", whole, zero), apply("copysign", zero, quotient), down)
    # By zero: the infinity or NaN of the plain quotient.
    return apply("where", apply("eq", b, zero), quotient, down)


_IN_STEPS: dict[str, Callable[[Expr, Expr, Round], Expr]] = {"trunc_div": _truncated, "floor_div": _floored}
"""Divisions whose result depends on what is rounded on the way. Remainders are exact: they are rounded once."""


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(build: Builder, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    """``a / b`` rounded down or towards zero."""
    if rounding_mode is None:
        return elementwise(build, true_div, (a, b), "float", exact=1)
    return _division({"floor": "floor_div", "trunc": "trunc_div"}[rounding_mode], build, a, b)


def _division(op: str, build: Builder, a: Any, b: Any) -> Value:
    """A quotient or a remainder. Integers divided by 0 raise eager mode's error; on a GPU the result is undefined.

    Kernels for the CPU and for a target check the divisors that they load.
    """
    dtype, device = promoted(a, b), common_device([value for value in (a, b) if isinstance(value, Value)])
    in_steps = op in _IN_STEPS and dtype in (torch.float16, torch.bfloat16) and not is_number(b, device)

    def narrow(value: Expr) -> Expr:
        return cast(cast(value, dtype), value.dtype)

    def divided(x: Expr, y: Expr) -> Expr:
        if is_integral(x) and isinstance(y, Constant) and y.value == 0:
            raise NoLowering("an integer division by zero")
        return _IN_STEPS[op](x, y, narrow) if in_steps else apply(op, x, y)

    return elementwise(build, divided, (a, b), exact=1 if op in _IN_STEPS else None)


for _overloads, _op in (
    ((aten.floor_divide.default, aten.floor_divide.Scalar), "floor_div"),
    ((aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor), "remainder"),
    ((aten.fmod.Tensor, aten.fmod.Scalar), "fmod"),
):
    lowering(*_overloads)(functools.partial(_division, _op))
