"""Operators that treat every element by itself.

    aten.silu.default(x)          x[i0] * sigmoid(x[i0])
    aten.add.Tensor(a, b)         a[i0, i1] + b[i1]            broadcast, promoted as torch does

A simple operator is one entry of a table; others are functions of scalar
bodies. The decorator broadcasts, promotes and casts around them.

In torch: torch/_inductor/lowering.py (make_pointwise). Read next:
nbcompile/lowering/reductions.py
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import sympy
import torch

from nbcompile.ir.expr import Constant, Expr, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import Index, constant as known_number
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_size, expanded, joined_nodes

aten = torch.ops.aten

SUPPORTED = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip
_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


@functools.cache
def _sample(dtype: torch.dtype, ndim: int) -> torch.Tensor:
    return torch.empty((0,) * ndim, dtype=dtype, device="meta")


def promoted(*operands: Any) -> torch.dtype:
    """The dtype that torch computes an operation on tensors and numbers in (its rules of promotion)."""
    samples: list[Any] = []
    for each in operands:
        match each:
            case Value():
                samples.append(_sample(each.dtype, min(each.ndim, 1)))
            case sympy.Expr():
                samples.append(1 if each.is_integer else 1.0)
            case _:
                samples.append(each)
    tensors = [each for each in samples if isinstance(each, torch.Tensor)]
    if not tensors:
        return torch.result_type(samples[0], samples[-1])
    # Tensors with dimensions win over those without, these over numbers; within a rank, the larger type.
    result = tensors[0]
    for each in samples:
        if each is tensors[0]:
            continue
        ndim = max(result.ndim, each.ndim if isinstance(each, torch.Tensor) else 0)
        result = _sample(torch.result_type(result, each), ndim)
    return result.dtype


def operand(value: Any, dtype: torch.dtype, size: tuple[Index, ...]) -> Expr:
    """A tensor or number as a body of a shape, in the type that is computed in."""
    wide = compute_dtype(dtype)
    match value:
        case Value():
            return cast(expanded(value, size).body, wide)
        case sympy.Integer():
            return constant(int(value), wide)
        case sympy.Expr():
            if not value.is_integer:
                raise NoLowering(f"the symbolic number {value} is no integer")
            return cast(IndexOf(value, torch.int64), wide)
        case bool() | int() | float():
            return constant(value, wide)
        case _:
            raise NoLowering(f"an argument of type {type(value).__name__}")


def elementwise(
    build: Builder, compute: Callable[..., Expr], operands: tuple[Any, ...], kind: str = "default"
) -> Value:
    """Broadcast and promote the operands, and compute on their elements.

    ``kind``: ``default`` (result in the promoted type), ``float`` (integers
    become floats first) or ``compare`` (the result is bool).
    """
    tensors = [each for each in operands if isinstance(each, Value)]
    if not tensors:
        raise NoLowering("no tensor among the operands")
    device = common_device(tensors)
    dtype = promoted(*operands)
    if kind == "float" and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    for each in (dtype, *(tensor.dtype for tensor in tensors)):
        if each not in SUPPORTED:
            raise NoLowering(f"dtype {each}")
    size = broadcast_size(*(each.size for each in tensors))
    body = compute(*(operand(each, dtype, size) for each in operands))
    nodes = joined_nodes(*(each.from_nodes for each in tensors), build.here())
    result = torch.bool if kind == "compare" else dtype
    return Value(result, device, size, cast(body, compute_dtype(result)), nodes)


def common_device(tensors: list[Value]) -> torch.device:
    """The device that all share."""
    devices = {each.device for each in tensors}
    if len(devices) > 1:
        raise NoLowering(f"tensors on several devices ({', '.join(sorted(map(str, devices)))})")
    return devices.pop()


def pointwise(*targets: Any, operands: int = 1, kind: str = "default") -> Callable[[Callable[..., Expr]], Any]:
    """Lower operators to a function of bodies; arguments after the operands are passed on as they are."""

    def register(compute: Callable[..., Expr]) -> Callable[..., Expr]:
        @lowering(*targets)
        @functools.wraps(compute)
        def lower(build: Builder, *args: Any, **kwargs: Any) -> Value:
            rest = args[operands:]
            return elementwise(build, lambda *bodies: compute(*bodies, *rest, **kwargs), args[:operands], kind)

        return compute

    return register


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
    pointwise(aten.sgn.default)(functools.partial(_named(apply, "sgn"), "sign"))
    for name in _COMPARISONS.split():
        overloads = getattr(aten, name)
        pointwise(overloads.Tensor, overloads.Scalar, operands=2, kind="compare")(
            functools.partial(_named(apply, name), name)
        )
    for name in ("isnan", "isinf"):
        pointwise(getattr(aten, name).default, kind="compare")(functools.partial(_named(_float_test, name), name))
    pointwise(aten.signbit.default, kind="compare")(functools.partial(_named(_float_test, "signbit"), "signbit"))
    for name in ("maximum", "minimum", "fmax", "fmin"):
        pointwise(getattr(aten, name).default, operands=2)(functools.partial(_named(_extreme, name), name))
    for name in ("atan2", "hypot"):
        pointwise(getattr(aten, name).default, operands=2, kind="float")(functools.partial(_named(apply, name), name))
    pointwise(aten.copysign.Tensor, aten.copysign.Scalar, operands=2, kind="float")(
        functools.partial(_named(apply, "copysign"), "copysign")
    )
    pointwise(aten.nextafter.default, operands=2)(functools.partial(_named(apply, "nextafter"), "nextafter"))
    for name in ("and", "or", "xor"):
        overloads = getattr(aten, f"bitwise_{name}")
        pointwise(overloads.Tensor, overloads.Scalar, operands=2)(
            functools.partial(_named(apply, f"bitwise_{name}"), f"bitwise_{name}")
        )
        pointwise(getattr(aten, f"logical_{name}").default, operands=2, kind="compare")(
            functools.partial(_named(_logical, f"logical_{name}"), name)
        )
    for name, op in (("left", "shift_left"), ("right", "shift_right")):
        overloads = getattr(aten, f"bitwise_{name}_shift")
        old = getattr(aten, f"__{name[0]}shift__")
        pointwise(overloads.Tensor, overloads.Tensor_Scalar, old.Tensor, old.Scalar, operands=2)(
            functools.partial(_named(_shifted, op), op)
        )


def _named(function: Callable[..., Expr], name: str) -> Callable[..., Expr]:
    # A partial has no name of its own, and functools.wraps and error messages want one.
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Expr:
        return function(*args, **kwargs)

    call.__name__ = name
    return call


def is_integral(body: Expr) -> bool:
    """Whether a value is an integer or bool."""
    return not body.dtype.is_floating_point


def _rounded(op: str, x: Expr) -> Expr:
    return x if is_integral(x) else apply(op, x)


def _float_test(op: str, x: Expr) -> Expr:
    if is_integral(x):
        return apply("lt", x, 0) if op == "signbit" else Constant(False, torch.bool)
    return apply(op, x)


_ON_BOOL = {
    "add": "bitwise_or", "mul": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and",
    "fmax": "bitwise_or", "fmin": "bitwise_and",
}  # fmt: skip


def arithmetic(op: str, a: Expr, b: Expr) -> Expr:
    """An operation that on bools is a logical one."""
    return apply(_ON_BOOL[op] if a.dtype == torch.bool else op, a, b)


def _extreme(op: str, a: Expr, b: Expr) -> Expr:
    if is_integral(a):
        op = {"fmax": "maximum", "fmin": "minimum"}.get(op, op)
    return arithmetic(op, a, b)


def _shifted(op: str, a: Expr, b: Expr) -> Expr:
    if not is_integral(a) or a.dtype == torch.bool:
        raise NoLowering(f"a shift of {a.dtype}")
    return apply(op, a, b)


def _logical(op: str, a: Expr, b: Expr) -> Expr:
    a, b = cast(a, torch.bool), cast(b, torch.bool)
    return apply("ne", a, b) if op == "xor" else apply(f"logical_{op}", a, b)


@pointwise(aten.logical_not.default, kind="compare")
def logical_not(x: Expr) -> Expr:
    """Not, of the value as a bool."""
    return apply("logical_not", cast(x, torch.bool))


@pointwise(aten.bitwise_not.default)
def bitwise_not(x: Expr) -> Expr:
    """``~x``; on bools it is not."""
    return apply("logical_not" if x.dtype == torch.bool else "bitwise_not", x)


# -- arithmetic -----------------------------------------------------------------------------------


def _scaled(b: Expr, alpha: Any) -> Expr:
    if isinstance(alpha, sympy.Expr) and known_number(alpha) is None:
        return arithmetic("mul", b, cast(IndexOf(alpha, torch.int64), b.dtype))
    number = int(alpha) if isinstance(alpha, sympy.Expr) else alpha
    return b if number == 1 else arithmetic("mul", b, constant(number, b.dtype))


@pointwise(aten.add.Tensor, aten.add.Scalar, operands=2)
def add(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``a + alpha * b``."""
    return arithmetic("add", a, _scaled(b, alpha))


@pointwise(aten.sub.Tensor, aten.sub.Scalar, operands=2)
def sub(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``a - alpha * b``."""
    return a - _scaled(b, alpha)


@pointwise(aten.rsub.Tensor, aten.rsub.Scalar, operands=2)
def rsub(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    """``b - alpha * a``."""
    return b - _scaled(a, alpha)


@pointwise(aten.mul.Tensor, aten.mul.Scalar, operands=2)
def mul(a: Expr, b: Expr) -> Expr:
    """``a * b``."""
    return arithmetic("mul", a, b)


@pointwise(aten.div.Tensor, aten.div.Scalar, operands=2, kind="float")
def true_div(a: Expr, b: Expr) -> Expr:
    """``a / b``, a float."""
    return a / b


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(build: Builder, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    """``a / b`` rounded down or towards zero."""
    if rounding_mode is None:
        return elementwise(build, true_div, (a, b), "float")
    op = {"floor": "floor_div", "trunc": "trunc_div"}[rounding_mode]
    return elementwise(build, lambda x, y: _divided(op, x, y), (a, b))


def _divided(op: str, a: Expr, b: Expr) -> Expr:
    # An integer divisor that may be zero is an error at run time, which a kernel cannot raise.
    if is_integral(a) and not (isinstance(b, Constant) and b.value not in (0, -1)):
        raise NoLowering("an integer division whose divisor may be zero")
    return apply(op, a, b)


for _overloads, _op in (
    ((aten.floor_divide.default, aten.floor_divide.Scalar), "floor_div"),
    ((aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor), "remainder"),
    ((aten.fmod.Tensor, aten.fmod.Scalar), "fmod"),
):
    pointwise(*_overloads, operands=2)(functools.partial(_named(_divided, _op), _op))


@pointwise(aten.square.default)
def square(x: Expr) -> Expr:
    """``x * x``."""
    return arithmetic("mul", x, x)


@pointwise(aten.frac.default)
def frac(x: Expr) -> Expr:
    """What is behind the point."""
    return x - apply("trunc", x)


@pointwise(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar, operands=2)
def power(base: Expr, exponent: Expr) -> Expr:
    """``base ** exponent``; with the simple exponents that torch treats exactly."""
    if is_integral(base):
        if not isinstance(exponent, Constant) or exponent.value < 0:
            raise NoLowering("an integer power whose exponent may be negative")
        return _small_power(base, int(exponent.value)) or apply("pow", base, exponent)
    if isinstance(exponent, Constant):
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
    return apply("pow", base, exponent)


def _small_power(base: Expr, exponent: int) -> Expr | None:
    if base.dtype == torch.bool or exponent > 3:
        return None
    return constant(1, base.dtype) if exponent == 0 else functools.reduce(lambda a, b: a * b, [base] * exponent)


@lowering(aten.clamp.default, aten.clamp.Tensor)
def clamp(build: Builder, x: Value, min: Any = None, max: Any = None) -> Value:
    """At least ``min``, at most ``max``; nan stays nan."""
    given = tuple(each for each in (min, max) if each is not None)

    def compute(x: Expr, *bounds: Expr) -> Expr:
        parts = list(bounds)
        if min is not None:
            x = arithmetic("maximum", x, parts.pop(0))
        return arithmetic("minimum", x, parts.pop(0)) if max is not None else x

    return elementwise(build, compute, (x, *given))


@pointwise(aten.clamp_min.default, aten.clamp_min.Tensor, operands=2)
def clamp_min(x: Expr, low: Expr) -> Expr:
    """At least ``low``."""
    return arithmetic("maximum", x, low)


@pointwise(aten.clamp_max.default, aten.clamp_max.Tensor, operands=2)
def clamp_max(x: Expr, high: Expr) -> Expr:
    """At most ``high``."""
    return arithmetic("minimum", x, high)


@pointwise(aten.addcmul.default, operands=3)
def addcmul(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    """``x + value * a * b``."""
    return x + _scaled(a, value) * b


@pointwise(aten.addcdiv.default, operands=3, kind="float")
def addcdiv(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    """``x + value * a / b``."""
    return x + _scaled(a, value) / b


@pointwise(aten.lerp.Scalar, aten.lerp.Tensor, operands=3)
def lerp(start: Expr, end: Expr, weight: Expr) -> Expr:
    """From ``start`` (weight 0) to ``end`` (weight 1), in the form that is exact at both ends."""
    near = start + weight * (end - start)
    far = end - (end - start) * (1.0 - weight)
    return apply("where", apply("lt", apply("abs", weight), 0.5), near, far)


# -- choice and types -----------------------------------------------------------------------------


@lowering(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(build: Builder, condition: Value, a: Any, b: Any) -> Value:
    """``a`` where the condition holds, else ``b``."""
    dtype = promoted(*(each for each in (a, b)))
    tensors = [each for each in (condition, a, b) if isinstance(each, Value)]
    device = common_device(tensors)
    if dtype not in SUPPORTED:
        raise NoLowering(f"dtype {dtype}")
    size = broadcast_size(*(each.size for each in tensors))
    body = apply("where", operand(condition, torch.bool, size), operand(a, dtype, size), operand(b, dtype, size))
    return Value(dtype, device, size, body, joined_nodes(*(each.from_nodes for each in tensors), build.here()))


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(build: Builder, x: Value, mask: Value, value: Any) -> Value:
    """``value`` where the mask holds; the result has x's dtype."""
    if isinstance(value, Value):
        value = convert(build, value, x.dtype)
    filled = where(build, mask, value, x)
    return convert(build, filled, x.dtype)


def convert(build: Builder, x: Value, dtype: torch.dtype) -> Value:
    """As another dtype, rounded as memory would round it."""
    if dtype not in SUPPORTED or x.dtype not in SUPPORTED:
        raise NoLowering(f"a cast from {x.dtype} to {dtype}")
    if x.dtype == dtype:
        return x
    body = cast(cast(x.body, dtype), compute_dtype(dtype))
    return Value(dtype, x.device, x.size, body, joined_nodes(x.from_nodes, build.here()))


@lowering(aten._to_copy.default)
def to_copy(
    build: Builder, x: Value, *, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, non_blocking: bool = False, memory_format: Any = None,
) -> Value:  # fmt: skip
    """Another dtype; another device is a matter for ATen."""
    if device is not None and torch.device(device) != x.device:
        raise NoLowering("a copy to another device")
    if pin_memory:
        raise NoLowering("pinned memory")
    return convert(build, x, dtype or x.dtype)


@lowering(torch.ops.prims.convert_element_type.default)
def convert_element_type(build: Builder, x: Value, dtype: torch.dtype) -> Value:
    """Another dtype."""
    return convert(build, x, dtype)


@lowering(aten.to.dtype)
def to_dtype(build: Builder, x: Value, dtype: torch.dtype, *_: Any, **__: Any) -> Value:
    """Another dtype."""
    return convert(build, x, dtype)


@lowering(aten.clone.default, aten.contiguous.default, aten.lift_fresh_copy.default)
def clone(_: Builder, x: Value, *, memory_format: Any = None) -> Value:
    """The same elements; the memory is chosen when it is realised."""
    return x


@lowering(aten.copy.default)
def copy(build: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source's elements in x's shape and dtype."""
    if source.device != x.device:
        raise NoLowering("a copy between devices")
    return convert(build, expanded(source, x.size), x.dtype)


# -- activations ----------------------------------------------------------------------------------


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``."""
    return apply("sigmoid", x)


@pointwise(aten.relu.default)
def relu(x: Expr) -> Expr:
    """``max(x, 0)``."""
    return apply("maximum", x, 0)


@pointwise(aten.relu6.default)
def relu6(x: Expr) -> Expr:
    """``min(max(x, 0), 6)``."""
    return apply("minimum", apply("maximum", x, 0), 6)


@pointwise(aten.silu.default, kind="float")
def silu(x: Expr) -> Expr:
    """``x * sigmoid(x)``."""
    return x * sigmoid(x)


@pointwise(aten.silu_backward.default, operands=2)
def silu_backward(grad: Expr, x: Expr) -> Expr:
    """The derivative of silu."""
    s = sigmoid(x)
    return grad * s * (1.0 + x * (1.0 - s))


_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715


@pointwise(aten.gelu.default, kind="float")
def gelu(x: Expr, approximate: str = "none") -> Expr:
    """``x * Phi(x)``, by erf or by tanh."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + apply("tanh", _TANH_SCALE * (x + _TANH_CUBIC * (x * x * x))))
    return 0.5 * x * (1.0 + apply("erf", x * math.sqrt(0.5)))


@pointwise(aten.gelu_backward.default, operands=2)
def gelu_backward(grad: Expr, x: Expr, approximate: str = "none") -> Expr:
    """The derivative of gelu."""
    if approximate == "tanh":
        t = apply("tanh", _TANH_SCALE * (x + _TANH_CUBIC * (x * x * x)))
        inner = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * (x * x))
        return grad * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)
    density = math.sqrt(0.5 / math.pi) * apply("exp", -0.5 * (x * x))
    return grad * (0.5 * (1.0 + apply("erf", x * math.sqrt(0.5))) + x * density)


@pointwise(aten.tanh_backward.default, operands=2)
def tanh_backward(grad: Expr, y: Expr) -> Expr:
    """From the result ``y`` of tanh."""
    return grad * (1.0 - y * y)


@pointwise(aten.sigmoid_backward.default, operands=2)
def sigmoid_backward(grad: Expr, y: Expr) -> Expr:
    """From the result ``y`` of sigmoid."""
    return grad * (1.0 - y) * y


@pointwise(aten.threshold_backward.default, operands=2)
def threshold_backward(grad: Expr, x: Expr, threshold: float) -> Expr:
    """The gradient where ``x`` was above the threshold (relu's backward with 0)."""
    return apply("where", apply("le", x, threshold), 0, grad)


@pointwise(aten.threshold.default)
def threshold(x: Expr, threshold: float, value: float) -> Expr:
    """``x`` above the threshold, else ``value``."""
    return apply("where", apply("le", x, threshold), value, x)


@pointwise(aten.leaky_relu.default)
def leaky_relu(x: Expr, negative_slope: float = 0.01) -> Expr:
    """``x`` where positive, a fraction of it elsewhere."""
    return apply("where", apply("gt", x, 0), x, x * negative_slope)


@pointwise(aten.leaky_relu_backward.default, operands=2)
def leaky_relu_backward(grad: Expr, x: Expr, negative_slope: float, self_is_result: bool) -> Expr:
    """The derivative of leaky_relu."""
    return apply("where", apply("gt", x, 0), grad, grad * negative_slope)


@pointwise(aten.hardtanh.default)
def hardtanh(x: Expr, min_val: float = -1.0, max_val: float = 1.0) -> Expr:
    """Between two bounds."""
    return apply("minimum", apply("maximum", x, min_val), max_val)


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
    return x * apply("minimum", apply("maximum", x + 3.0, 0.0), 6.0) / 6.0


@pointwise(aten.elu.default)
def elu(x: Expr, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Expr:
    """Linear where positive, exponential elsewhere."""
    return apply("where", apply("gt", x, 0), x * scale, apply("expm1", x * input_scale) * (alpha * scale))


@pointwise(aten.softplus.default, kind="float")
def softplus(x: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """``log(1 + exp(beta * x)) / beta``, the identity where that is large."""
    scaled = x * beta
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
    power = elementwise(build, lambda a: apply("exp", -apply("abs", a)), (x,))
    return elementwise(build, lambda a, e: apply("minimum", a, 0.0) - apply("log1p", e), (x, power)), power


@pointwise(aten.log_sigmoid_backward.default, operands=2)
def log_sigmoid_backward(grad: Expr, x: Expr, buffer: Any) -> Expr:
    """The derivative of log(sigmoid(x))."""
    return grad * apply("sigmoid", -x)


@lowering(aten.native_dropout_backward.default)
def native_dropout_backward(build: Builder, grad: Value, mask: Value, scale: float) -> Value:
    """The gradient where the mask kept it, scaled."""
    kept = elementwise(build, lambda g, m: g * m * scale, (grad, mask))
    return convert(build, kept, grad.dtype)


_register_tables()
