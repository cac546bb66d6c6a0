"""Pointwise operators: each element of the result depends on one element of each operand.

    aten.add.Tensor(a, b)         a[i0, i1] + b[i1]            broadcast, promoted as torch does
    aten.exp.default(x)           exp(x[i0])

A simple operator is one entry of a table; others are functions of scalar bodies.

In torch: torch/_inductor/lowering.py (register_pointwise). Read next:
nbcompile/lowering/division.py
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import sympy
import torch

from nbcompile.ir.expr import Constant, Expr, IndexOf, apply, cast, constant
from nbcompile.ir.index import constant as known_number
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import elementwise, pointwise, promoted
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten

# -- one operation each ---------------------------------------------------------------------------

_FLOAT_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf erfc erfinv lgamma digamma sin cos tan asin acos atan "
    "sinh cosh asinh acosh atanh sqrt rsqrt reciprocal"
)
_ROUNDING = "floor ceil trunc round"
_COMPARISONS = "eq ne lt le gt ge"


def _register_tables() -> None:
    for name in _FLOAT_UNARY.split():
        pointwise(getattr(aten, name).default, kind="float")(functools.partial(_named(apply, name), name))
    for name in _ROUNDING.split():
        pointwise(getattr(aten, name).default)(functools.partial(_named(_rounded, name), name))
    for name in ("neg", "abs", "sign"):
        pointwise(getattr(aten, name).default)(functools.partial(_named(apply, name), name))
    # They differ for complex numbers only, which have no lowering.
    pointwise(aten.sgn.default)(functools.partial(_named(apply, "sgn"), "sign"))
    for name in _COMPARISONS.split():
        overloads = getattr(aten, name)
        pointwise(overloads.Tensor, overloads.Scalar, operands=2, kind="compare")(
            functools.partial(_named(apply, name), name)
        )
    for name in ("isnan", "isinf"):
        pointwise(getattr(aten, name).default, kind="compare")(functools.partial(_named(_float_test, name), name))
    pointwise(aten.signbit.default, kind="compare")(functools.partial(_named(_float_test, "signbit"), "signbit"))
    for name in ("maximum", "minimum"):
        pointwise(getattr(aten, name).default, operands=2)(functools.partial(_named(arithmetic, name), name))
    for name in ("fmax", "fmin"):
        lowering(getattr(aten, name).default)(functools.partial(_extreme_number, name))
    for name in ("atan2", "hypot"):
        pointwise(getattr(aten, name).default, operands=2, kind="float")(functools.partial(_named(apply, name), name))
    pointwise(aten.copysign.Tensor, aten.copysign.Scalar, operands=2, kind="float")(
        functools.partial(_named(apply, "copysign"), "copysign")
    )
    lowering(aten.nextafter.default)(_nextafter)
    for name in ("and", "or", "xor"):
        overloads = getattr(aten, f"bitwise_{name}")
        pointwise(overloads.Tensor, overloads.Scalar, overloads.Scalar_Tensor, operands=2)(
            functools.partial(_named(apply, f"bitwise_{name}"), f"bitwise_{name}")
        )
        pointwise(getattr(aten, f"logical_{name}").default, operands=2, kind="compare")(
            functools.partial(_named(_logical, f"logical_{name}"), name)
        )
    for name, op in (("left", "shift_left"), ("right", "shift_right")):
        overloads = getattr(aten, f"bitwise_{name}_shift")
        old = getattr(aten, f"__{name[0]}shift__")
        targets = overloads.Tensor, overloads.Tensor_Scalar, overloads.Scalar_Tensor, old.Tensor, old.Scalar
        pointwise(*targets, operands=2)(functools.partial(_named(_shifted, op), op))


def _named(function: Callable[..., Expr], name: str) -> Callable[..., Expr]:
    # A partial has no name of its own, and functools.wraps and error messages want one.
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Expr:
        return function(*args, **kwargs)

    call.__name__ = name
    return call


def is_integral(body: Expr) -> bool:
    """Return whether a value is an integer or bool."""
    return not body.dtype.is_floating_point


def _rounded(op: str, x: Expr) -> Expr:
    return x if is_integral(x) else apply(op, x)


def _float_test(op: str, x: Expr) -> Expr:
    # Integers are never NaN or infinite.
    if is_integral(x):
        return apply("lt", x, 0) if op == "signbit" else Constant(False, torch.bool)
    return apply(op, x)


_ON_BOOL = {
    "add": "bitwise_or", "mul": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and",
    "fmax": "bitwise_or", "fmin": "bitwise_and",
}  # fmt: skip


def arithmetic(op: str, a: Expr, b: Expr) -> Expr:
    """An arithmetic operation; on bools, the logical operation that torch applies."""
    # torch.tensor(True) + True is True: on bools the sum is an or, the product an and.
    return apply(_ON_BOOL[op] if a.dtype == torch.bool else op, a, b)


def _extreme_number(op: str, build: Builder, first: Value, second: Value) -> Value:
    """The larger or smaller number; NaN only if both are. Two zeros give the first, in bfloat16 the second."""

    def compute(a: Expr, b: Expr) -> Expr:
        return apply({"fmax": "maximum", "fmin": "minimum"}[op], a, b) if is_integral(a) else apply(op, a, b)

    def of_bools(a: Expr, b: Expr) -> Expr:
        return arithmetic(op, a, b)

    dtype = promoted(first, second)
    # fmax(0.0, -0.0): which zero is returned shows in 1 / x.
    operands = (second, first) if dtype == torch.bfloat16 else (first, second)
    return elementwise(build, of_bools if dtype == torch.bool else compute, operands)


@pointwise(aten.angle.default, kind="float")
def _angle(x: Expr) -> Expr:
    """Angle of a real number in the complex plane: pi below zero, else zero; that of NaN is NaN."""
    return apply(
        "where",
        apply("isnan", x),
        x,
        apply("where", apply("lt", x, 0), constant(math.pi, x.dtype), constant(0.0, x.dtype)),
    )


def _shifted(op: str, a: Expr, b: Expr) -> Expr:
    if not is_integral(a) or a.dtype == torch.bool:
        raise NoLowering(f"a shift of {a.dtype}")
    return apply(op, a, b)


def _logical(op: str, a: Expr, b: Expr) -> Expr:
    # Of bools, exclusive or is inequality.
    a, b = cast(a, torch.bool), cast(b, torch.bool)
    return apply("ne", a, b) if op == "xor" else apply(f"logical_{op}", a, b)


@pointwise(aten.logical_not.default, kind="compare")
def logical_not(x: Expr) -> Expr:
    """Negate the value as a bool."""
    return apply("logical_not", cast(x, torch.bool))


@pointwise(aten.bitwise_not.default)
def bitwise_not(x: Expr) -> Expr:
    """``~x``; of bools, the logical not."""
    return apply("logical_not" if x.dtype == torch.bool else "bitwise_not", x)


# -- arithmetic -----------------------------------------------------------------------------------


def _factor(alpha: Any, dtype: torch.dtype) -> Expr | None:
    """``alpha`` as a body; None if it is 1."""
    if isinstance(alpha, sympy.Expr) and known_number(alpha) is None:
        return cast(IndexOf(alpha, torch.int64), dtype)
    number = int(alpha) if isinstance(alpha, sympy.Expr) else alpha
    return None if number == 1 else constant(number, dtype)


def _scaled(b: Expr, alpha: Any) -> Expr:
    factor = _factor(alpha, b.dtype)
    return b if factor is None else arithmetic("mul", b, factor)


@pointwise(aten.add.Tensor, aten.add.Scalar, operands=2, rounds_factors=True)
def add(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``a + alpha * b``; of floats rounded once, as in ATen."""
    factor = _factor(alpha, b.dtype)
    if factor is None or is_integral(a):
        return arithmetic("add", a, _scaled(b, alpha))
    return apply("fma", b, factor, a)


@pointwise(aten.sub.Tensor, aten.sub.Scalar, operands=2, bools=False, rounds_factors=True)
def sub(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``a - alpha * b``."""
    factor = _factor(alpha, b.dtype)
    if factor is None or is_integral(a):
        return a - _scaled(b, alpha)
    negated = Constant(-factor.value, factor.dtype) if isinstance(factor, Constant) else apply("neg", factor)
    return apply("fma", b, negated, a)


@pointwise(aten.rsub.Tensor, aten.rsub.Scalar, operands=2, bools=False, rounds_factors=True)
def rsub(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``b - alpha * a``."""
    return sub(b, a, alpha)


@pointwise(aten.mul.Tensor, aten.mul.Scalar, operands=2, exact=1)
def mul(a: Expr, b: Expr) -> Expr:
    """``a * b``."""
    return arithmetic("mul", a, b)


@pointwise(aten.div.Tensor, aten.div.Scalar, operands=2, kind="float", exact=1)
def true_div(a: Expr, b: Expr) -> Expr:
    """``a / b``, a float."""
    return a / b


@pointwise(aten.square.default)
def square(x: Expr) -> Expr:
    """``x * x``."""
    return arithmetic("mul", x, x)


@pointwise(aten.frac.default)
def frac(x: Expr) -> Expr:
    """The fractional part."""
    return x - apply("trunc", x)


@lowering(aten.round.decimals)
def round_decimals(build: Builder, x: Value, *, decimals: int) -> Value:
    """Round to a multiple of ``10 ** -decimals``; 16-bit floats in float32 throughout, as the CPU's kernel does."""
    if not x.dtype.is_floating_point:
        raise NoLowering(f"rounding {x.dtype} to decimals")
    if x.dtype.itemsize == 2 and x.device.type != "cpu":
        raise NoLowering("decimals of 16-bit floats: what this device's kernel rounds in between is not known")
    # Larger powers of ten are infinite, so that eager mode's results are NaN, too.
    power_of_ten = 10.0 ** abs(decimals) if abs(decimals) <= sys.float_info.max_10_exp else math.inf

    def compute(body: Expr) -> Expr:
        if decimals < 0:
            return apply("round", body / power_of_ten) * power_of_ten
        return apply("round", body * power_of_ten) / power_of_ten if decimals else apply("round", body)

    return elementwise(build, compute, (x,))


@pointwise(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar, operands=2)
def power(base: Expr, exponent: Expr) -> Expr:
    """``base ** exponent``; with the simple exponents that torch treats exactly."""
    # Negative powers of integers have rules of their own: an error for a number, 0, 1 or -1 in a tensor.
    if is_integral(base):
        if not isinstance(exponent, Constant) or exponent.value < 0:
            raise NoLowering("an integer power whose exponent may be negative")
        return _small_power(base, int(exponent.value)) or apply("pow", base, exponent)
    if isinstance(exponent, Constant):
        # ATen has the same special cases, whose results may differ from pow's in the last digit.
        simple: dict[float, Callable[[], Expr]] = {
            0.0: lambda: constant(1, base.dtype),
            1.0: lambda: base,
            0.5: lambda: apply("sqrt", base),
            -0.5: lambda: apply("rsqrt", base),
            2.0: lambda: base * base,
            3.0: lambda: base * base * base,
            -1.0: lambda: apply("reciprocal", base),
            -2.0: lambda: apply("reciprocal", base * base),
        }
        if exponent.value in simple:
            return simple[exponent.value]()
        # A few multiplications are many times cheaper than pow.
        if exponent.value in (4, 5, 6, 7, 8):
            return _squared(base, int(exponent.value))
    if isinstance(base, Constant) and base.value == 2:
        return apply("exp2", exponent)
    return apply("pow", base, exponent)


SMALL_POWER = 64


def _small_power(base: Expr, exponent: int) -> Expr | None:
    if base.dtype == torch.bool or exponent > SMALL_POWER:
        return None
    return constant(1, base.dtype) if exponent == 0 else _squared(base, exponent)


def _squared(base: Expr, exponent: int) -> Expr:
    """``base ** exponent`` by squares: x**7 = x * x**2 * x**4 takes four products."""
    if exponent == 1:
        return base
    half = _squared(base * base, exponent // 2)
    return base * half if exponent % 2 else half


def _bounded(op: str, x: Expr, bound: Expr) -> Expr:
    # Of two zeros the second is taken: as in eager the value's own if the bound is a number, else the bound's.
    return arithmetic(op, bound, x) if isinstance(bound, Constant) else arithmetic(op, x, bound)


@lowering(aten.clamp.default, aten.clamp.Tensor)
def clamp(build: Builder, x: Value, min: Any = None, max: Any = None) -> Value:
    """Clamp to at least ``min`` and at most ``max``; nan stays nan."""
    given = tuple(each for each in (min, max) if each is not None)

    def compute(x: Expr, *bounds: Expr) -> Expr:
        parts = list(bounds)
        if min is not None:
            x = _bounded("maximum", x, parts.pop(0))
        return _bounded("minimum", x, parts.pop(0)) if max is not None else x

    return elementwise(build, compute, (x, *given))


@pointwise(aten.clamp_min.default, aten.clamp_min.Tensor, operands=2)
def clamp_min(x: Expr, low: Expr) -> Expr:
    """Clamp to at least ``low``."""
    return _bounded("maximum", x, low)


@pointwise(aten.clamp_max.default, aten.clamp_max.Tensor, operands=2)
def clamp_max(x: Expr, high: Expr) -> Expr:
    """Clamp to at most ``high``."""
    return _bounded("minimum", x, high)


@pointwise(aten.addcmul.default, operands=3)
def addcmul(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    """``x + value * a * b``; of floats the last product and the sum are rounded once, as in ATen."""
    scaled = _scaled(a, value)
    return x + scaled * b if is_integral(x) else apply("fma", scaled, b, x)


@pointwise(aten.addcdiv.default, operands=3, kind="float")
def addcdiv(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    """``x + value * a / b``."""
    return x + _scaled(a, value) / b


@pointwise(aten.lerp.Scalar, aten.lerp.Tensor, operands=3, exact=2)
def lerp(start: Expr, end: Expr, weight: Expr) -> Expr:
    """Interpolate from ``start`` (weight 0) to ``end`` (weight 1), in the form that is exact at both ends."""
    # The same two formulas as ATen (aten/src/ATen/native/Lerp.h), each with one rounding of product and sum.
    is_near = apply("lt", apply("abs", weight), 0.5)
    factor = apply("where", is_near, weight, weight - 1.0)
    return apply("fma", factor, end - start, apply("where", is_near, start, end))


def _nextafter(build: Builder, a: Any, b: Any) -> Value:
    """The neighbour of ``a`` towards ``b``; float16 and bfloat16 compute in float32, which has other neighbours."""
    if promoted(a, b) in (torch.float16, torch.bfloat16):
        raise NoLowering("neighbours of 16-bit floats")
    return elementwise(build, functools.partial(apply, "nextafter"), (a, b))


_register_tables()
