"""Casts between dtypes, copies, and ``where``.

    aten.where.self(c, a, b)               where(c[i0], a[i0], b[i0])       both sides in the promoted type
    aten._to_copy.default(x, dtype=half)   float32(float16(x[i0]))          rounded as memory would round it

In torch: torch/_inductor/lowering.py (where, to_dtype, clone). Read next:
nbcompile/lowering/reductions.py
"""

from __future__ import annotations

from typing import Any

import sympy
import torch

from nbcompile.ir.expr import FLOAT8, Apply, Load, apply, cast, compute_dtype, constant
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import SUPPORTED, common_device, converted, operand, promoted
from nbcompile.lowering.registry import LOWERINGS, NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_size, broadcast_to, merge_nodes

aten = torch.ops.aten


@lowering(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(build: Builder, condition: Value, a: Any, b: Any) -> Value:
    """``a`` where the condition holds, else ``b``."""
    # The condition takes no part in promotion.
    dtype = promoted(*(each for each in (a, b)))
    tensors = [each for each in (condition, a, b) if isinstance(each, Value)]
    device = common_device(tensors)
    if dtype not in SUPPORTED:
        raise NoLowering(f"dtype {dtype}")
    size = broadcast_size(*(each.size for each in tensors))
    body = apply("where", operand(condition, torch.bool, size), converted(a, dtype, size), converted(b, dtype, size))
    return Value(dtype, device, size, body, merge_nodes(*(each.from_nodes for each in tensors), build.origin()))


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(build: Builder, x: Value, mask: Value, value: Any) -> Value:
    """``value`` where the mask holds; it becomes a number of x's dtype first, as other elements must not change."""
    if isinstance(value, Value):
        return where(build, mask, convert(build, value, x.dtype), x)
    if x.dtype not in SUPPORTED or isinstance(value, (complex, sympy.Basic)):
        raise NoLowering(f"a tensor of {x.dtype} filled with {value}")
    size = broadcast_size(mask.size, x.size)
    # The number is rounded to x's type, and is then a constant of the type that the kernel computes in.
    filler = constant(constant(value, x.dtype).value, compute_dtype(x.dtype))
    body = apply("where", operand(mask, torch.bool, size), filler, broadcast_to(x, size).body)
    device = common_device([x, mask])
    return Value(x.dtype, device, size, body, merge_nodes(x.from_nodes, mask.from_nodes, build.origin()))


def is_castable(dtype: torch.dtype, device: torch.device) -> bool:
    """Return whether kernels for a device cast from and to a dtype."""
    return dtype in SUPPORTED or (dtype in FLOAT8 and device.type == "cuda")


def is_computable(value: Value) -> bool:
    """Return whether a kernel can store a value: a float8 value must be an element of a tensor or a cast."""
    if value.dtype in SUPPORTED:
        return True
    body = value.body
    if isinstance(body, Apply) and body.op == "cast" and body.dtype == compute_dtype(value.dtype):
        body = body.args[0]
    is_cast = isinstance(body, Load) or (isinstance(body, Apply) and body.op == "cast")
    return is_castable(value.dtype, value.device) and is_cast and body.dtype == value.dtype


def convert(build: Builder, x: Value, dtype: torch.dtype) -> Value:
    """Cast to another dtype, with the rounding of a store."""
    rejected = [end for end in (x.dtype, dtype) if not is_castable(end, x.device)]
    if rejected:
        why = ", a type that no GPU of NVIDIA's has" if x.device.type == "cuda" and "fnuz" in str(rejected[0]) else ""
        raise NoLowering(f"a cast from {x.dtype} to {dtype}{why}")
    if x.dtype == dtype:
        return x
    #     to float16       float32(float16(x))      rounded to 11 bits, and computed with in float32
    #     to int32         int32(int32(x))          the second one does nothing
    body = cast(cast(x.body, dtype), compute_dtype(dtype))
    return Value(dtype, x.device, x.size, body, merge_nodes(x.from_nodes, build.origin()))


@lowering(aten._to_copy.default)
def to_copy(
    build: Builder, x: Value, *, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, non_blocking: bool = False, memory_format: Any = None,
) -> Value:  # fmt: skip
    """Cast to another dtype; a copy to another device falls back to ATen."""
    # AOTAutograd writes a tensor of one number as that number: ``vmap`` created it from the 2 in ``s * 2``.
    if not isinstance(x, Value):
        number: Value = LOWERINGS[aten.scalar_tensor.default](build, x, dtype=dtype, device=device)
        return number
    # A kernel reads and writes one device's memory.
    if device is not None and build.target_device(torch.device(device)) != x.device:
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
    """The same value; its layout is chosen when it is realized."""
    return x


@lowering(aten.copy.default)
def copy(build: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source's elements in x's shape and dtype."""
    if source.device != x.device:
        raise NoLowering("a copy between devices")
    return convert(build, broadcast_to(source, x.size), x.dtype)
