"""Activation functions and their derivatives, as formulas.

    aten.silu.default(x)              x[i0] * sigmoid(x[i0])
    aten.silu_backward.default(g, x)  g[i0] * s * (1.0 + x[i0] * (1.0 - s))       with s = sigmoid(x[i0])

In torch: torch/_decomp/decompositions.py. Read next:
nbcompile/lowering/dtype_cast.py
"""

from __future__ import annotations

import math
from typing import Any

import torch

from nbcompile.ir.expr import Expr, apply
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import elementwise, pointwise
from nbcompile.lowering.registry import lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``."""
    return apply("sigmoid", x)


@pointwise(aten.relu.default)
def relu(x: Expr) -> Expr:
    """``max(x, 0)``."""
    # Of two zeros, maximum gives the second operand (ir/expr.py): relu(-0.0) is the argument's zero.
    return apply("maximum", 0, x)


@pointwise(aten.relu6.default)
def relu6(x: Expr) -> Expr:
    """``min(max(x, 0), 6)``."""
    return apply("minimum", 6, apply("maximum", 0, x))


@pointwise(aten.silu.default, kind="float")
def silu(x: Expr) -> Expr:
    """``x * sigmoid(x)``."""
    return x * sigmoid(x)


@pointwise(aten.silu_backward.default, operands=2)
def silu_backward(grad: Expr, x: Expr) -> Expr:
    """The derivative of silu."""
    # (x * s)' = s + x * s * (1 - s), with s taken out.
    s = sigmoid(x)
    return grad * s * (1.0 + x * (1.0 - s))


# gelu by tanh: 0.5 * x * (1 + tanh(SCALE * (x + CUBIC * x^3))).
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715


@pointwise(aten.special_ndtr.default, kind="float")
def ndtr(x: Expr) -> Expr:
    """The cumulative distribution function of the normal distribution."""
    return apply("ndtr", x)


@pointwise(aten.gelu.default, kind="float")
def gelu(x: Expr, approximate: str = "none") -> Expr:
    """``x * Phi(x)``, with Phi the cumulative distribution function; or its approximation by tanh."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + apply("tanh", _TANH_SCALE * (x + _TANH_CUBIC * (x * x * x))))
    return apply("gelu", x)


@pointwise(aten.gelu_backward.default, operands=2)
def gelu_backward(grad: Expr, x: Expr, approximate: str = "none") -> Expr:
    """The derivative of gelu."""
    if approximate == "tanh":
        t = apply("tanh", _TANH_SCALE * (x + _TANH_CUBIC * (x * x * x)))
        inner = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * (x * x))
        return grad * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)
    # (x * Phi(x))' = Phi(x) + x * phi(x), with phi the density of the normal distribution.
    density = math.sqrt(0.5 / math.pi) * apply("exp", -0.5 * (x * x))
    return grad * (apply("ndtr", x) + x * density)


@pointwise(aten.tanh_backward.default, operands=2)
def tanh_backward(grad: Expr, y: Expr) -> Expr:
    """Compute the gradient from the result ``y`` of tanh."""
    return grad * (1.0 - y * y)


@pointwise(aten.sigmoid_backward.default, operands=2)
def sigmoid_backward(grad: Expr, y: Expr) -> Expr:
    """Compute the gradient from the result ``y`` of sigmoid."""
    return grad * (1.0 - y) * y


@pointwise(aten.threshold_backward.default, operands=2)
def threshold_backward(grad: Expr, x: Expr, threshold: float) -> Expr:
    """The gradient where ``x`` was above the threshold (relu's backward with 0)."""
    # nan <= threshold is false: the gradient passes.
    return apply("where", apply("le", x, threshold), 0, grad)


@pointwise(aten.threshold.default, rounds_factors=True)
def threshold(x: Expr, threshold: float, value: float) -> Expr:
    """``x`` above the threshold, else ``value``."""
    return apply("where", apply("le", x, threshold), value, x)


@pointwise(aten.leaky_relu.default)
def leaky_relu(x: Expr, negative_slope: float = 0.01) -> Expr:
    """``x`` where positive, a fraction of it elsewhere."""
    # NaN is not greater than 0, and times the slope it is NaN.
    return apply("where", apply("gt", x, 0), x, x * negative_slope)


@pointwise(aten.leaky_relu_backward.default, operands=2)
def leaky_relu_backward(grad: Expr, x: Expr, negative_slope: float, self_is_result: bool) -> Expr:
    """The derivative of leaky_relu."""
    # From the result it is the same: a positive slope leaves the sign of x as it is.
    return apply("where", apply("gt", x, 0), grad, grad * negative_slope)


@pointwise(aten.hardtanh.default, rounds_factors=True)
def hardtanh(x: Expr, min_val: float = -1.0, max_val: float = 1.0) -> Expr:
    """``x``, clamped between two bounds."""
    return apply("minimum", max_val, apply("maximum", min_val, x))


@pointwise(aten.hardtanh_backward.default, operands=2)
def hardtanh_backward(grad: Expr, x: Expr, min_val: float, max_val: float) -> Expr:
    """The gradient strictly inside the bounds."""
    outside = apply("logical_or", apply("le", x, min_val), apply("ge", x, max_val))
    return apply("where", outside, 0, grad)


@pointwise(aten.hardsigmoid.default)
def hardsigmoid(x: Expr) -> Expr:
    """``clamp(x + 3, 0, 6) / 6``."""
    return apply("minimum", apply("maximum", x + 3.0, 0.0), 6.0) / 6.0


@pointwise(aten.hardswish.default)
def hardswish(x: Expr) -> Expr:
    """``x * hardsigmoid(x)``."""
    # x times the clamped sum first, and the division last: in this order of roundings, as in ATen.
    return x * apply("minimum", apply("maximum", x + 3.0, 0.0), 6.0) / 6.0


@pointwise(aten.elu.default)
def elu(x: Expr, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Expr:
    """Linear where positive, exponential elsewhere."""
    return apply("where", apply("gt", x, 0), x * scale, apply("expm1", x * input_scale) * (alpha * scale))


@pointwise(aten.softplus.default, kind="float")
def softplus(x: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """``log(1 + exp(beta * x)) / beta``, the identity where that is large."""
    scaled = x * beta
    # exp may overflow in the branch that is not chosen.
    return apply("where", apply("gt", scaled, threshold), x, apply("log1p", apply("exp", scaled)) / beta)


@pointwise(aten.softplus_backward.default, operands=2)
def softplus_backward(grad: Expr, x: Expr, beta: float, threshold: float) -> Expr:
    """The derivative of softplus."""
    scaled = x * beta
    z = apply("exp", scaled)
    return apply("where", apply("gt", scaled, threshold), grad, grad * z / (z + 1.0))


@pointwise(aten.mish.default, kind="float")
def mish(x: Expr) -> Expr:
    """``x * tanh(softplus(x))``."""
    return x * apply("tanh", apply("log1p", apply("exp", x)))


@lowering(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(build: Builder, x: Value) -> tuple[Value, Value]:
    """``log(sigmoid(x))`` without overflow, and the exponential that its backward may use."""
    # The exponent is never positive: exp(-x) would be infinite for x = -100.0.
    power = elementwise(build, lambda a: apply("exp", -apply("abs", a)), (x,))
    return elementwise(build, lambda a, e: apply("minimum", a, 0.0) - apply("log1p", e), (x, power)), power


@pointwise(aten.log_sigmoid_backward.default, operands=2)
def log_sigmoid_backward(grad: Expr, x: Expr, buffer: Any) -> Expr:
    """The derivative of log(sigmoid(x))."""
    return grad * apply("sigmoid", -x)


@lowering(aten.native_dropout_backward.default)
def native_dropout_backward(build: Builder, grad: Value, mask: Value, scale: float) -> Value:
    """The gradient where the mask kept it, scaled."""
    masked_grad = elementwise(build, lambda g, m: g * m * scale, (grad, mask))
    return convert(build, masked_grad, grad.dtype)
