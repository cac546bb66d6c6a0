"""Operators whose kernels for the CPU round to float16 or bfloat16 between their steps, written with these roundings.

    torch.logit(x)     of bfloat16      log(bfloat16(x / bfloat16(1 - x)))
    x ** 3             of bfloat16      bfloat16(x * x) * x
    threshold(x, 0.1)  of bfloat16      x > 0.1, where a comparison of its own would round the number

Kernels that ATen wrote with vectors of float32 round once, as generated loops do. The operators here are written in
the narrow type itself; their results differ by a unit in the last place, or by more where digits cancel. Other
types, and tensors on a GPU, keep the definition that they have.

In torch: aten/src/ATen/native/cpu/BinaryOpsKernel.cpp, UnaryOpsKernel.cpp, PowKernel.cpp. Read next:
nbcompile/aot/decompositions.py
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from nbcompile import torch_internals

aten = torch.ops.aten

Definition = Callable[..., Any]


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A float32 tensor with the digits of a narrow type."""
    return x.to(dtype).float()


def _number(number: float, dtype: torch.dtype) -> float:
    """A number with the digits of a narrow type."""
    with torch_internals.dispatch_modes()._disable_current_modes():
        return float(torch.tensor(number, dtype=dtype))


def _logit(x: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    wide = x.float()
    if eps is not None:
        low = _number(eps, x.dtype)
        high = _number(1 - low, x.dtype)
        wide = torch.where(wide < low, low, torch.where(wide > high, high, wide))
    return (wide / _rounded(1 - wide, x.dtype)).to(x.dtype).log()


def _product_with_log(log: Definition, x: Any, y: Any) -> torch.Tensor:
    """``x * log(y)``; 0 if x is 0, and NaN if y is NaN."""
    dtype = next(operand.dtype for operand in (x, y) if isinstance(operand, torch.Tensor))
    left, right = (
        operand.float() if isinstance(operand, torch.Tensor) else torch.scalar_tensor(_number(operand, dtype))
        for operand in (x, y)
    )
    product = torch.where(left == 0, 0.0, left * _rounded(log(right), dtype))
    return torch.where(right.isnan(), math.nan, product).to(dtype)


def _entropy(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    outside = torch.where(wide == 0, 0.0, torch.where(wide < 0, -math.inf, wide))
    return torch.where(wide > 0, -wide * _rounded(wide.log(), x.dtype), outside).to(x.dtype)


def _squared_error(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    difference = _rounded(x.float() - target.float(), x.dtype)
    squares = (difference * difference).to(x.dtype)
    return squares.mean() if reduction == 1 else squares.sum() if reduction == 2 else squares


def _softshrink(x: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    wide = x.float()
    shrunk = torch.where(wide < -lambd, wide + lambd, wide * 0)
    return torch.where(wide > lambd, wide - lambd, shrunk).to(x.dtype)


def _threshold(x: torch.Tensor, threshold: float, value: float) -> torch.Tensor:
    wide = x.float()
    return torch.where(wide <= threshold, value, wide).to(x.dtype)


def _leaky_relu(x: torch.Tensor, negative_slope: float = 0.01) -> torch.Tensor:
    wide = x.float()
    return torch.where(wide > 0, wide, wide * negative_slope).to(x.dtype)


def _elu(x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> torch.Tensor:
    wide = x.float()
    return torch.where(wide > 0, wide * scale, torch.expm1(wide * input_scale) * (alpha * scale)).to(x.dtype)


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    wide = x.float()
    scaled = wide * beta
    return torch.where(scaled > threshold, wide, scaled.exp().log1p() / beta).to(x.dtype)


def _power(x: torch.Tensor, exponent: float) -> Any:
    wide = x.float()
    if x.dtype == torch.bfloat16 and exponent == 3:
        return (_rounded(wide * wide, x.dtype) * wide).to(x.dtype)
    if x.dtype == torch.bfloat16 and exponent == -2:
        return (1 / _rounded(wide * wide, x.dtype)).to(x.dtype)
    # A general power, which is no root for -0.0 and -inf: their results are positive.
    if x.dtype == torch.float16 and exponent in (0.5, -0.5):
        positive = torch.where(wide == -math.inf, math.inf, wide + 0.0)
        return (positive.sqrt() if exponent > 0 else positive.rsqrt()).to(x.dtype)
    return NotImplemented


_PAIRS = ("default", "Tensor", "self_scalar", "other_scalar", "Scalar_Self", "Scalar_Other")


def _pair_overloads(packet: torch._ops.OpOverloadPacket) -> list[torch._ops.OpOverload]:
    """Overloads of two tensors, or of a tensor and a number."""
    return [getattr(packet, name) for name in _PAIRS if name in packet.overloads()]


DEFINITIONS: dict[torch._ops.OpOverload, Definition] = {
    aten.logit.default: _logit,
    **{
        overload: functools.partial(_product_with_log, log)
        for packet, log in ((aten.xlogy, torch.log), (aten.special_xlog1py, torch.log1p))
        for overload in _pair_overloads(packet)
    },
    aten.special_entr.default: _entropy,
    aten.mse_loss.default: _squared_error,
    aten.softshrink.default: _softshrink,
    aten.threshold.default: _threshold,
    # These round at their end alone, where the operator that follows would take more digits.
    aten.leaky_relu.default: _leaky_relu,
    aten.elu.default: _elu,
    aten.softplus.default: _softplus,
    aten.pow.Tensor_Scalar: _power,
}
"""Definitions for tensors of float16 and bfloat16 on the CPU, by operator."""


def with_rounded_steps(operator: torch._ops.OpOverload, general: Definition | None) -> Definition:
    """Definition with the roundings of the CPU's kernel where it has them, else the general one, if there is one."""
    in_steps = DEFINITIONS[operator]

    def decompose(*arguments: Any, **keywords: Any) -> Any:
        if _is_narrow(arguments):
            return in_steps(*arguments, **keywords)
        return NotImplemented if general is None else general(*arguments, **keywords)

    return decompose


def _is_narrow(arguments: tuple[Any, ...]) -> bool:
    """Return whether the tensors are of one narrow type, on the CPU."""
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    return all(tensor.device.type == "cpu" for tensor in tensors) and {tensor.dtype for tensor in tensors} in (
        {torch.float16},
        {torch.bfloat16},
    )
