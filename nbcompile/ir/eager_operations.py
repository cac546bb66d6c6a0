"""Operations of the loop IR on whole tensors, by torch in eager mode: elements, reductions, scans, updates.

    EVALUATE["maximum"](a, b)     combine("sum", rows, None, 1)     scan("prod", rows, index, -1)

In torch: nothing (kernels are only ever compiled). Read next: nbcompile/ir/evaluate_loops.py
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch


def update_element(target: torch.Tensor, position: tuple[torch.Tensor, ...], kind: str, value: torch.Tensor) -> None:
    """Update an element: store the value, or combine it with the old one."""
    target[position] = value if kind == "store" else combine(kind, torch.stack((target[position], value)), None, 1)


def combine(kind: str, value: torch.Tensor, index: torch.Tensor | None, inner: int) -> torch.Tensor:
    """A reduction over the last ``inner`` dimensions."""
    flat = value.reshape(*value.shape[: value.dim() - inner], math.prod(value.shape[value.dim() - inner :]))
    if index is not None:
        # torch does not specify which of several equal elements is returned: all of them are compared, and
        # the smallest index wins.
        best = (flat.argmax if kind == "argmax" else flat.argmin)(-1, keepdim=True)
        flat_indices = index.reshape(flat.shape)
        winner = flat.gather(-1, best)
        equal = (flat == winner) | (flat.isnan() & winner.isnan() if flat.is_floating_point() else False)
        return torch.where(equal, flat_indices, torch.iinfo(torch.int64).max).amin(-1)
    match kind:
        case "sum" | "dot" | "dot_tf32":
            return flat.sum(-1, dtype=flat.dtype)
        case "prod":
            return flat.prod(-1, dtype=flat.dtype)
        case "max":
            return flat.amax(-1)
        case "min":
            return flat.amin(-1)
        case "any":
            return flat.any(-1)
        case "all":
            return flat.all(-1)
        case _:
            raise ValueError(f"unknown reduction {kind!r}")


def scan(kind: str, value: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """A scan along a dimension: each element combined with those before it."""
    match kind:
        case "sum":
            return value.cumsum(dim, dtype=value.dtype)
        case "prod":
            return value.cumprod(dim, dtype=value.dtype)
        case "logsumexp":
            return value.logcumsumexp(dim)
        case "max" | "min" | "argmax" | "argmin":
            best, where = (torch.cummax if kind.endswith("max") else torch.cummin)(value, dim)
            return index.gather(dim, where) if kind.startswith("arg") else best
        case _:
            raise ValueError(f"unknown scan {kind!r}")


def _trunc_div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode="trunc")


def _cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)


def _philox(seed: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
    """Philox4x32-10: ten rounds over four words of 32 bits, each held in an int64."""
    word = 0xFFFFFFFF
    keys = [seed & word, seed >> 32 & word]
    words = [counter & word, counter >> 32 & word, torch.zeros_like(counter), torch.zeros_like(counter)]
    for _ in range(10):
        # Constants of Salmon and others, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
        odd, even = words[2] * 0xCD9E8D57, words[0] * 0xD2511F53
        words = [odd >> 32 & word ^ words[1] ^ keys[0], odd & word, even >> 32 & word ^ words[3] ^ keys[1], even & word]
        keys = [keys[0] + 0x9E3779B9 & word, keys[1] + 0xBB67AE85 & word]
    return words[0] | words[1] << 32


def _ndtr(x: torch.Tensor) -> torch.Tensor:
    """The normal distribution in float64: torch's float32 result has no significant digit far below zero."""
    return (torch.special.erfc(x.double() * -math.sqrt(0.5)) / 2).to(x.dtype)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return (wide * _ndtr(wide)).to(x.dtype)


def _fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """``a * b + c`` with one rounding, which is that of ATen's ``addcmul``."""
    return torch.addcmul(c, a, b)


def _maximum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The maximum; of two zeros the second. torch's own choice depends on alignment (vector or scalar loop)."""
    return torch.where((a > b) | a.isnan(), a, b)


def _minimum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where((a < b) | a.isnan(), a, b)


_TORCH_FUNCTIONS = (
    "add sub mul div fmax fmin remainder fmod pow neg abs sign atan2 hypot copysign nextafter floor "
    "ceil trunc round sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh erfc erfinv lgamma digamma eq ne lt le gt ge isnan isinf signbit logical_and "
    "logical_or logical_not bitwise_and bitwise_or bitwise_xor bitwise_not where"
)


EVALUATE: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in _TORCH_FUNCTIONS.split()},
    "fma": _fma,
    "maximum": _maximum,
    "minimum": _minimum,
    "ndtr": _ndtr,
    "gelu": _gelu,
    "floor_div": torch.floor_divide,
    "trunc_div": _trunc_div,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "philox": _philox,
    "cast": _cast,
}
"""Implementation of each operation of expr.OPERATIONS."""
