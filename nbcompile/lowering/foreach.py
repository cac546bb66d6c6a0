"""Operators on lists of tensors (``_foreach_add``), as optimizers use them: the operator on tensors, per list item.

    aten._foreach_addcdiv.ScalarList([p0, p1], [m0, m1], [v0, v1], [s0, s1])
        ->  addcdiv(p0, m0, v0, value=s0), addcdiv(p1, m1, v1, value=s1)

A step over a thousand parameters is captured as some twenty such nodes. They are split up here, and not before
AOTAutograd, so every pass on graphs handles only twenty nodes;
and as parameters of one shape have loops that are equal text, few kernels are compiled.

In torch: torch/_inductor/lowering.py (register_foreach_pointwise), codegen/triton_combo_kernel.py
Read next: nbcompile/lowering/graph.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import LOWERINGS, Lowering, NoLowering, lowering

aten = torch.ops.aten

_UNARY = (
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc max"
)
# By name, the overload of the operator on tensors that is repeated: where the second argument is a
# list of tensors, and where it is a number for all of them, or one for each.
_LISTS_OF_TENSORS = {"add": "Tensor", "sub": "Tensor", "mul": "Tensor", "div": "Tensor", "pow": "Tensor_Tensor",
                     "clamp_max": "Tensor", "clamp_min": "Tensor", "maximum": "default", "minimum": "default",
                     "lerp": "Tensor"}  # fmt: skip
_NUMBERS = {"add": "Scalar", "sub": "Scalar", "mul": "Scalar", "div": "Scalar", "pow": "Tensor_Scalar",
            "clamp_max": "default", "clamp_min": "default", "maximum": "default", "minimum": "default",
            "lerp": "Scalar"}  # fmt: skip


def _simple() -> Iterator[tuple[str, str, torch._ops.OpOverload]]:
    """Name and overload of operators on lists, and the operator on one tensor that each repeats."""
    for name in _UNARY.split():
        yield name, "default", getattr(aten, name).default
    for name, overload in _LISTS_OF_TENSORS.items():
        yield name, "List", getattr(getattr(aten, name), overload)
    for name, overload in _NUMBERS.items():
        for lists in ("Scalar", "ScalarList"):
            yield name, lists, getattr(getattr(aten, name), overload)
    for name in ("add", "mul", "div"):
        yield name, "Tensor", getattr(aten, name).Tensor
    yield "pow", "ScalarAndTensor", aten.pow.Scalar
    yield "copy", "default", aten.copy.default
    yield "zero", "default", aten.zeros_like.default
    yield "norm", "Scalar", aten.linalg_vector_norm.default


def _register() -> None:
    for name, overload, single in _simple():
        # Versions of torch differ in which of them exist.
        packet = getattr(aten, f"_foreach_{name}", None)
        if packet is not None and overload in packet.overloads():
            lowering(getattr(packet, overload))(_for_each(single))


def _for_each(single: torch._ops.OpOverload) -> Lowering:
    """Lower to one operator per item; arguments that are no lists are the same for every item."""

    def lower(build: Builder, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        lists = [each for each in (*args, *kwargs.values()) if isinstance(each, list)]
        # ATen raises its own error for lists of different lengths.
        if len({len(each) for each in lists}) != 1:
            raise NoLowering("lists that are not of one length")

        def at(item: int, value: Any) -> Any:
            return value[item] if isinstance(value, list) else value

        def one(item: int) -> Any:
            keywords = {name: at(item, each) for name, each in kwargs.items()}
            return LOWERINGS[single](build, *(at(item, each) for each in args), **keywords)

        return tuple(one(item) for item in range(len(lists[0])))

    return lower


_register()


@lowering(aten._foreach_addcdiv.Scalar, aten._foreach_addcdiv.ScalarList)
def addcdiv(build: Builder, x: Any, a: Any, b: Any, value: Any = 1) -> tuple[Any, ...]:
    """``x + value * a / b``; the numbers, by position or not, are a keyword of the operator on tensors."""
    return _for_each(aten.addcdiv.default)(build, x, a, b, value=value)


@lowering(aten._foreach_addcmul.Scalar, aten._foreach_addcmul.ScalarList)
def addcmul(build: Builder, x: Any, a: Any, b: Any, value: Any = 1) -> tuple[Any, ...]:
    """``x + value * a * b``."""
    return _for_each(aten.addcmul.default)(build, x, a, b, value=value)
