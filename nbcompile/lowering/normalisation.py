"""Composite operators: softmax, layer norm and their gradients.

They are lowered here if no decomposition replaced them before. Each is written as the operators it consists of;
scheduling fuses these into one loop over rows.

    aten._softmax.default(x, 1)   amax, exp(x - max), sum, one over it, multiply

In torch: torch/_decomp/decompositions.py. Read next: nbcompile/lowering/graph.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbcompile.ir.expr import Expr, apply, compute_dtype
from nbcompile.ir.index import product
from nbcompile.lowering import one_pass
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import elementwise
from nbcompile.lowering.one_pass import shifted
from nbcompile.lowering.reductions import all_dims, moments, number, reduce
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten


def _wide(build: Builder, x: Value, half_to_float: bool = False) -> tuple[Value, torch.dtype]:
    if not x.dtype.is_floating_point:
        raise NoLowering(f"dtype {x.dtype}")
    wide = build.realize_if_costly(convert(build, x, compute_dtype(x.dtype)))
    return wide, torch.float32 if half_to_float else x.dtype


def _powers(
    build: Builder, x: Value, dim: Any, shift: Callable[[Expr], Expr] | None = None, *, kept: bool = True
) -> tuple[Value, Value, Value]:
    """The largest number ``m`` of each row, ``exp(x - shift(m))``, which may be kept in memory, and its sum."""
    dims = all_dims(x, dim)
    rows = one_pass.long_rows(build, x, dims)
    if rows is None:
        largest = reduce(build, x, dims, True, "max")
        # Minus the maximum, no power exceeds 1: exp(1000.0) would be infinite.
        powers = elementwise(build, lambda a, m: apply("exp", a - m), (x, shifted(build, largest, shift)))
        # softmax multiplies them once more after the sum; they are kept in a scratch row rather
        # than computed twice.
        powers = build.realize(powers) if kept else powers
        return largest, powers, reduce(build, powers, dims, True, "sum")
    largest, total = one_pass.largest_and_total(build, rows, shift)
    powers = elementwise(build, lambda a, m: apply("exp", a - m), (x, shifted(build, largest, shift)))
    return largest, powers, total


@lowering(aten._softmax.default)
def softmax(build: Builder, x: Value, dim: int, half_to_float: bool) -> Value:
    """``exp(x - max) / sum``; one division a row, as a division takes as long as five products."""
    wide, dtype = _wide(build, x, half_to_float)
    _, powers, total = _powers(build, wide, [dim])
    # Stored, so that there is one for each row; as a part of the product there would be one for each element.
    share = build.realize(elementwise(build, lambda s: apply("reciprocal", s), (total,)))
    return convert(build, elementwise(build, lambda e, s: e * s, (powers, share)), dtype)


@lowering(aten._log_softmax.default)
def log_softmax(build: Builder, x: Value, dim: int, half_to_float: bool) -> Value:
    """``x - max - log(sum(exp(x - max)))``."""
    wide, dtype = _wide(build, x, half_to_float)
    largest, _, sums = _powers(build, wide, [dim], kept=False)
    total = build.realize(elementwise(build, lambda s: apply("log", s), (sums,)))
    return convert(build, elementwise(build, lambda a, m, s: a - m - s, (wide, largest, total)), dtype)


@lowering(aten._softmax_backward_data.default)
def softmax_backward(build: Builder, grad: Value, output: Value, dim: int, input_dtype: torch.dtype) -> Value:
    """``output * (grad - sum(grad * output))``."""
    g, _ = _wide(build, grad)
    o, _ = _wide(build, output)
    total = reduce(build, elementwise(build, lambda a, b: a * b, (g, o)), [dim], True, "sum")
    result = elementwise(build, lambda a, b, s: a * b - b * s, (g, o, total))
    return convert(build, result, input_dtype)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(build: Builder, grad: Value, output: Value, dim: int, input_dtype: torch.dtype) -> Value:
    """``grad - exp(output) * sum(grad)``."""
    g, _ = _wide(build, grad)
    o, _ = _wide(build, output)
    total = reduce(build, g, [dim], True, "sum")
    result = elementwise(build, lambda a, b, s: a - apply("exp", b) * s, (g, o, total))
    return convert(build, result, input_dtype)


@lowering(aten.native_layer_norm.default)
def layer_norm(
    build: Builder, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """``(x - mean) * rstd * weight + bias``, and mean and rstd for the backward."""
    wide, dtype = _wide(build, x)
    dims = list(range(x.ndim - len(shape), x.ndim))
    # Layer norm takes the biased variance: correction 0.
    spread, average = moments(build, wide, dims, 0)
    rstd = build.realize(elementwise(build, lambda v: apply("rsqrt", v + eps), (spread,)))
    result = elementwise(build, lambda a, m, r: (a - m) * r, (wide, average, rstd))
    if weight is not None:
        result = elementwise(build, lambda a, w: a * w, (result, convert(build, weight, wide.dtype)))
    if bias is not None:
        result = elementwise(build, lambda a, b: a + b, (result, convert(build, bias, wide.dtype)))
    # On the CPU ATen may save float32 instead of bfloat16; a backward is traced for what FakeTensor says.
    saved = dtype if x.device.type == "cpu" or build.device is not None else wide.dtype
    return convert(build, result, dtype), convert(build, average, saved), convert(build, rstd, saved)


@lowering(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    build: Builder, grad: Value, x: Value, shape: Sequence[Any], mean: Value, rstd: Value, weight: Value | None,
    bias: Value | None, mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:  # fmt: skip
    """Gradients of the input, the weight and the bias, as far as the mask requests them."""
    g, _ = _wide(build, grad)
    wide, r, m = (build.realize_if_costly(convert(build, each, g.dtype)) for each in (x, rstd, mean))
    inner = list(range(x.ndim - len(shape), x.ndim))
    outer = list(range(x.ndim - len(shape)))
    normal = build.realize(elementwise(build, lambda a, b, c: (a - b) * c, (wide, m, r)))
    grads: list[Value | None] = [None, None, None]
    # With n = (x - mean) * rstd, s = grad * weight and N elements in a row:
    #      dx = rstd / N * (N * s - sum(s) - n * sum(s * n))
    if mask[0]:
        scaled = g if weight is None else elementwise(build, lambda a, w: a * w, (g, convert(build, weight, g.dtype)))
        count = product(x.size[at] for at in inner)
        first = reduce(build, scaled, inner, True, "sum")
        second = reduce(build, elementwise(build, lambda a, b: a * b, (scaled, normal)), inner, True, "sum")

        def combine(s: Expr, one: Expr, n: Expr, two: Expr, c: Expr) -> Expr:
            size = number(count, s.dtype)
            return (s * size - one - n * two) * (c / size)

        grads[0] = convert(build, elementwise(build, combine, (scaled, first, normal, second, r)), x.dtype)
    if mask[1] and weight is not None:
        products = elementwise(build, lambda a, b: a * b, (g, normal))
        grads[1] = convert(build, reduce(build, products, outer, False, "sum"), weight.dtype)
    if mask[2] and bias is not None:
        grads[2] = convert(build, reduce(build, g, outer, False, "sum"), bias.dtype)
    return grads[0], grads[1], grads[2]


@lowering(aten.logsumexp.default)
def logsumexp(build: Builder, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """``log(sum(exp(x - max))) + max``, with an infinite max left out."""
    wide, dtype = _wide(build, x)

    # For [-inf, -inf], x - max would be nan. With 0 for the maximum the sum is 0 and its logarithm -inf,
    # as in eager mode.
    def finite(largest: Expr) -> Expr:
        return apply("where", apply("isinf", largest), 0.0, largest)

    largest, _, total = _powers(build, wide, dim, finite, kept=False)
    result = elementwise(build, lambda s, m: apply("log", s) + finite(m), (total, largest))
    if not keepdim:
        result = build.call(aten.squeeze.dims, result, dim if isinstance(dim, (list, tuple)) else [dim])
    return convert(build, result, dtype)
