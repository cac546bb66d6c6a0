"""Operators that combine many elements into one.

    x.sum(1)      buf0 = sum over r0 of x[i0, r0]
    x.mean(1)     buf0 = sum over r0 of x[i0, r0];  buf0[i0] / 8
    x.var(1)      mean, then the sum of (x - mean)**2: two passes over a row that is in cache

In torch: torch/_inductor/lowering.py (make_reduction, var_mean). Read next:
nbcompile/lowering/views.py
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbcompile.ir.expr import Expr, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import Index, constant as known_number, is_one, product
from nbcompile.lowering import one_pass
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import SUPPORTED, elementwise
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value
from nbcompile.lowering.views import dimension, reshape

aten = torch.ops.aten
Dims = int | Sequence[int] | None


def all_dims(x: Value, dims: Dims) -> list[int]:
    """The dimensions that are meant, in order; none named means all."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(x.ndim))
    named = [dims] if isinstance(dims, int) else dims
    return sorted({dimension(dim, x.ndim) for dim in named}) if x.ndim else []


def reduce(build: Builder, x: Value, dims: Dims, keepdim: bool, kind: str, dtype: torch.dtype | None = None) -> Value:
    """Reduce along dimensions, in an accumulator type that is wide enough; the result has ``dtype``."""
    dtype = dtype or x.dtype
    if x.dtype not in SUPPORTED or dtype not in SUPPORTED:
        raise NoLowering(f"dtype {x.dtype}")
    # The values are compared in their own type; the int64 of the result is the type of the index.
    accumulate = compute_dtype(x.dtype if kind in ("argmax", "argmin") else dtype)
    return build.reduce(x, all_dims(x, dims), keepdim, kind, dtype, accumulate)


def _summed(x: Value, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)


@lowering(aten.sum.dim_IntList, aten.sum.default)
def sum_(build: Builder, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum; of integers and bools in int64."""
    return reduce(build, x, dim, keepdim, "sum", _summed(x, dtype))


@lowering(aten.prod.default)
def prod(build: Builder, x: Value, *, dtype: Any = None) -> Value:
    """The product of all elements."""
    return reduce(build, x, None, False, "prod", _summed(x, dtype))


@lowering(aten.prod.dim_int)
def prod_dim(build: Builder, x: Value, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The product along a dimension."""
    return reduce(build, x, dim, keepdim, "prod", _summed(x, dtype))


def number(count: Index, dtype: torch.dtype) -> Expr:
    """A number of elements as a value."""
    known = known_number(count)
    return constant(known, dtype) if known is not None else cast(IndexOf(count, torch.int64), dtype)


@lowering(aten.mean.default)
def mean_all(build: Builder, x: Value, *, dtype: Any = None) -> Value:
    """The mean of all elements."""
    return mean(build, x, None, dtype=dtype)


@lowering(aten.mean.dim)
def mean(build: Builder, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum by the number of elements."""
    dtype = dtype or x.dtype
    wide = convert(build, x, compute_dtype(dtype))
    total = reduce(build, wide, dim, keepdim, "sum", compute_dtype(dtype))
    count = product(x.size[at] for at in all_dims(x, dim))
    # The total is not rounded to the result's type: 1000 float16 values of 100 have the mean 100, but their sum,
    # 100000, is infinite in float16.
    average = elementwise(build, lambda s: s / number(count, s.dtype), (total,))
    return convert(build, average, dtype)


def _some(x: Value, dim: Dims) -> Value:
    """The argument, of which there must be an element to choose."""
    if any(x.size[at] == 0 for at in all_dims(x, dim)):
        raise NoLowering("nothing to choose from: ATen says so, with its own error")
    return x


@lowering(aten.amax.default)
def amax(build: Builder, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    """The largest element; nan if any element is nan."""
    return reduce(build, _some(x, dim), dim, keepdim, "any" if x.dtype == torch.bool else "max")


@lowering(aten.amin.default)
def amin(build: Builder, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    """The smallest element; nan if any element is nan."""
    return reduce(build, _some(x, dim), dim, keepdim, "all" if x.dtype == torch.bool else "min")


@lowering(aten.max.default)
def max_all(build: Builder, x: Value) -> Value:
    """The largest of all elements."""
    return amax(build, x)


@lowering(aten.min.default)
def min_all(build: Builder, x: Value) -> Value:
    """The smallest of all elements."""
    return amin(build, x)


@lowering(aten.max.dim)
def max_dim(build: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The largest along a dimension, and where it is."""
    return amax(build, x, [dim], keepdim), argmax(build, x, dim, keepdim)


@lowering(aten.min.dim)
def min_dim(build: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The smallest along a dimension, and where it is."""
    return amin(build, x, [dim], keepdim), argmin(build, x, dim, keepdim)


def _arg(build: Builder, x: Value, dim: int | None, keepdim: bool, kind: str) -> Value:
    if x.dtype == torch.bool:
        x = convert(build, x, torch.uint8)
    if x.ndim == 0:
        return build.call(aten.full.default, (), 0, dtype=torch.int64, device=x.device)
    return reduce(build, _some(x, dim), dim, keepdim, kind, torch.int64)


@lowering(aten.argmax.default)
def argmax(build: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The first index of the largest element (the linear index if ``dim`` is None)."""
    return _arg(build, x, dim, keepdim, "argmax")


@lowering(aten.argmin.default)
def argmin(build: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The first index of the smallest element."""
    return _arg(build, x, dim, keepdim, "argmin")


def _truth(build: Builder, x: Value, dim: Dims, keepdim: bool, kind: str) -> Value:
    # On uint8, torch's any and all return uint8.
    result = reduce(build, convert(build, x, torch.bool), dim, keepdim, kind)
    return convert(build, result, torch.uint8) if x.dtype == torch.uint8 else result


@lowering(aten.any.default, aten.any.dim, aten.any.dims)
def any_(build: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Reduce to true if some element is not zero."""
    return _truth(build, x, dim, keepdim, "any")


@lowering(aten.all.default, aten.all.dim, aten.all.dims)
def all_(build: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Reduce to true if no element is zero."""
    return _truth(build, x, dim, keepdim, "all")


# -- spread ---------------------------------------------------------------------------------------


def moments(build: Builder, x: Value, dim: Dims, correction: Any) -> tuple[Value, Value]:
    """Variance and mean in the compute dtype, with ``keepdim``: two passes, the mean and then the squares."""
    if not x.dtype.is_floating_point:
        raise NoLowering(f"the variance of {x.dtype}")
    wide = build.realize_if_costly(convert(build, x, compute_dtype(x.dtype)))
    # One pass over x and x * x would be cheaper, but mean(x * x) - mean(x) ** 2 cancels where the mean is large.
    rows = one_pass.long_rows(build, wide, all_dims(x, dim))
    average, total = corrected_moments(build, wide, dim) if rows is None else one_pass.mean_and_squares(build, rows)
    count = product(x.size[at] for at in all_dims(x, dim))
    freedom = functools.partial(_freedom, count, 1 if correction is None else correction)
    return elementwise(build, lambda s: s / freedom(s.dtype), (total,)), average


def corrected_moments(build: Builder, x: Value, dim: Dims) -> tuple[Value, Value]:
    """The mean, and the sum of the squares of the distances from it, corrected by the sum of these distances.

    The first mean ``m`` has a rounding error, which the sum of the distances from it gives:

        d = x - m;  s = sum(d);  mean = m + s / n;  sum((x - mean)**2) = sum(d * d) - s * (s / n)

    Both sums are computed in one pass. Where all numbers are equal, each ``d`` is a few units in the last place, so
    that both are exact: the mean is the number itself, and the variance is 0. (The corrected two-pass algorithm of
    Chan, Golub and LeVeque.)
    """
    count = product(x.size[at] for at in all_dims(x, dim))
    first = build.realize(mean(build, x, dim, keepdim=True))
    distances = elementwise(build, lambda a, m: a - m, (x, first))
    squares = reduce(build, elementwise(build, _square_of_distance, (x, first)), dim, True, "sum")
    error = reduce(build, distances, dim, True, "sum")
    average = build.realize(elementwise(build, lambda m, s: m + s / number(count, s.dtype), (first, error)))
    # Rounding must not give a negative variance; NaN stays NaN.
    total = elementwise(
        build, lambda q, s: apply("maximum", q - s * (s / number(count, s.dtype)), 0.0), (squares, error)
    )
    return average, total


def _square_of_distance(a: Expr, m: Expr) -> Expr:
    return (a - m) * (a - m)


def _freedom(count: Index, correction: Any, dtype: torch.dtype) -> Expr:
    known = known_number(count)
    if known is not None:
        # As in torch, too few elements give a division by 0: nan or infinity, never a negative variance.
        return constant(max(0.0, known - correction), dtype)
    return apply("maximum", number(count, dtype) - float(correction), 0.0)


def _require_freedom(build: Builder, x: Value, dim: Dims, correction: Any) -> None:
    """Leave a variance of too few numbers to ATen, which warns of it at each call; also one that may be of too few."""
    count = product(x.size[at] for at in all_dims(x, dim))
    taken = 1 if correction is None else correction
    # A symbolic size of an input is 2 or more, a number may be less, and so may what is computed: s0 - 2, s0//2.
    # ATen counts no elements for a result without any: it warns of std() of 0 rows, too.
    if any(extent == 0 for extent in x.size) or not build.is_true(count > taken):
        raise NoLowering("a variance without degrees of freedom: ATen warns of it")


def _squeezed(build: Builder, x: Value, like: Value, dim: Dims, keepdim: bool) -> Value:
    if keepdim:
        return x
    reduced_size = [extent for at, extent in enumerate(like.size) if at not in all_dims(like, dim)]
    return reshape(build, x, reduced_size)


@lowering(aten.var.correction)
def var(build: Builder, x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    """The variance."""
    _require_freedom(build, x, dim, correction)
    spread, _ = moments(build, x, dim, correction)
    return convert(build, _squeezed(build, spread, x, dim, keepdim), x.dtype)


@lowering(aten.var.dim)
def var_dim(build: Builder, x: Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    """The variance."""
    return var(build, x, dim, correction=int(unbiased), keepdim=keepdim)


@lowering(aten.std.correction)
def std(build: Builder, x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    """The square root of the variance."""
    _require_freedom(build, x, dim, correction)
    spread, _ = moments(build, x, dim, correction)
    root = elementwise(build, lambda v: apply("sqrt", v), (spread,))
    return convert(build, _squeezed(build, root, x, dim, keepdim), x.dtype)


@lowering(aten.var_mean.correction)
def var_mean(
    build: Builder, x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """The variance and the mean."""
    _require_freedom(build, x, dim, correction)
    spread, average = moments(build, x, dim, correction)
    return (
        convert(build, _squeezed(build, spread, x, dim, keepdim), x.dtype),
        convert(build, _squeezed(build, average, x, dim, keepdim), x.dtype),
    )


# -- lengths --------------------------------------------------------------------------------------


@lowering(aten.linalg_vector_norm.default)
def vector_norm(
    build: Builder,
    x: Value,
    ord: Any = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Value:
    """The length of a vector, by its order."""
    dtype = dtype or x.dtype
    if not dtype.is_floating_point:
        raise NoLowering(f"the norm of {x.dtype}")
    wide = convert(build, x, compute_dtype(dtype))
    # For one number eager returns the absolute value, as with an infinite order: its power might be 0 or infinite.
    of_one = ord != 0 and all(is_one(x.size[at]) for at in all_dims(x, dim))
    # Each norm is a pointwise operator, a reduction, and a pointwise operator again: all three fuse.
    before, kind, after = _norm_of(math.inf if of_one else float(ord))
    result = reduce(build, elementwise(build, before, (wide,)), dim, keepdim, kind)
    return convert(build, elementwise(build, after, (result,)), dtype)


# Order 0 counts the elements that are not zero, 1 adds their sizes, 2 is Euclid's, infinity takes the largest: none of
# them needs a power, which costs an exponential and a logarithm for each element.
def _norm_of(order: float) -> tuple[Callable[[Expr], Expr], str, Callable[[Expr], Expr]]:
    if order == 0.0:
        return (lambda a: cast(apply("ne", a, 0.0), a.dtype)), "sum", (lambda s: s)
    if order == 1.0:
        return (lambda a: apply("abs", a)), "sum", (lambda s: s)
    if order == 2.0:
        return (lambda a: a * a), "sum", (lambda s: apply("sqrt", s))
    if math.isinf(order):
        return (lambda a: apply("abs", a)), ("max" if order > 0 else "min"), (lambda s: s)
    return (lambda a: apply("pow", apply("abs", a), order)), "sum", (lambda s: apply("pow", s, 1.0 / order))
