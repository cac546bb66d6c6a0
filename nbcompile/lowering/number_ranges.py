"""Numbers beyond the range of a dtype: eager mode rejects them where it converts a number itself.

    torch.full_like(x, 300)     of uint8    RuntimeError: value cannot be converted to type uint8_t without overflow
    x + 300                     of uint8    wraps around: the number becomes a tensor first

A kernel would wrap the number around. So that the error is eager mode's, the operator runs through ATen.

In torch: c10/util/TypeCast.h (overflows), which Inductor's kernels do not call. Read next:
nbcompile/lowering/graph.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import sympy
import torch

from nbcompile.lowering.registry import NoLowering

aten = torch.ops.aten

# Where each operator has the numbers that ATen converts to the dtype of its result: positions and keywords.
_CONVERTED: dict[Any, tuple[int | str, ...]] = {
    aten.full.default: (1,),
    aten.full_like.default: (1,),
    aten.new_full.default: (2,),
    aten.hardtanh.default: (1, 2),
    aten.fill.Scalar: (1,),
    aten.scalar_tensor.default: (0,),
    aten.masked_fill.Scalar: (2,),
    aten.index_fill.int_Scalar: (3,),
    aten.scatter.value: (3,),
    aten.constant_pad_nd.default: (2,),
    aten.threshold.default: (1, 2),
    aten.clamp.default: (1, 2, "min", "max"),
    aten.clamp_min.default: (1,),
    aten.clamp_max.default: (1,),
    aten.addcmul.default: ("value",),
    aten.pow.Tensor_Scalar: (1,),
}
_NARROWER_THAN_INT64 = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16})
"""Dtypes that do not hold every int64. A bool takes each number as True or False."""


def require_numbers_in_range(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], predicted: Any) -> None:
    """Reject an operator with a number beyond the dtype of its result.

    Raises:
        NoLowering: ATen has the error, or the number that it wraps around to.
    """
    for where in _CONVERTED.get(target, ()):
        number = kwargs.get(where) if isinstance(where, str) else args[where] if where < len(args) else None
        if not _is_converted(target, predicted.dtype):
            continue
        if isinstance(number, (int, float)):
            require_representable(number, predicted.dtype)
        elif isinstance(number, sympy.Basic) and number.is_integer and predicted.dtype in _NARROWER_THAN_INT64:
            # An input of the graph: only ATen sees its value.
            raise NoLowering(f"{number} may be no {predicted.dtype}")


def _is_converted(target: Any, dtype: torch.dtype) -> bool:
    """Return whether eager mode converts the number to that dtype."""
    # The exponent of a power of floats is a float64. A tensor of one float is a step of decompositions, of which eager
    # mode converts no number: `xlogy(x, 1e39)`.
    return not dtype.is_floating_point or target not in (aten.pow.Tensor_Scalar, aten.scalar_tensor.default)


def require_representable(number: float, dtype: torch.dtype) -> None:
    """Reject a number that is beyond the range of a dtype.

    Raises:
        NoLowering: the dtype has no such number.
    """
    if dtype == torch.bool:
        return
    if dtype.is_floating_point or dtype.is_complex:
        limits: Any = torch.finfo(dtype)
        fits = not math.isfinite(number) or limits.min <= number <= limits.max
    else:
        limits = torch.iinfo(dtype)
        fits = math.isfinite(number) and limits.min <= number <= limits.max
    if not fits:
        raise NoLowering(f"{number} is no {dtype}")
