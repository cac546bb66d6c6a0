"""Creation of tensors: the body is a constant, or an expression over the index.

    torch.arange(4)   IndexOf(i0)
    torch.ones(2, 3)  Constant(1.0)

In torch: torch/_inductor/lowering.py (tensor_constructor, iota). Read next:
nbcompile/lowering/normalisation.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir.expr import Expr, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import constant as known_number, index, indices, loop_variable
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import SUPPORTED, operand
from nbcompile.lowering.registry import LOWERINGS, ON_SEVERAL_DEVICES, NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten


def _generated(build: Builder, size: Sequence[Any], body: Any, dtype: torch.dtype | None, device: Any) -> Value:
    lowered = LOWERINGS.get(build.node.target) if build.node is not None else None
    if lowered is not None and lowered.__module__ == __name__:
        # FakeTensor has worked out every default (dtype of the fill value, current device).
        predicted = build.node.meta["val"]  # type: ignore[union-attr]
        dtype, device = predicted.dtype, predicted.device
    dtype = dtype or torch.get_default_dtype()
    if dtype not in SUPPORTED:
        raise NoLowering(f"dtype {dtype}")
    if not isinstance(body, Expr):
        body = operand(body, dtype, ())
    # A number of the result's dtype, as memory would round it, in the type that kernels compute in.
    rounded = cast(cast(body, dtype), compute_dtype(dtype))
    return Value(dtype, build.target_device(torch.device(device or "cpu")), indices(size), rounded, build.origin())


@lowering(aten.full.default)
def full(build: Builder, size: Sequence[Any], fill: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
    """One number everywhere."""
    return _generated(build, size, fill, dtype, device)


@lowering(aten.full_like.default)
def full_like(build: Builder, x: Value, fill: Any, **_: Any) -> Value:
    """One number everywhere."""
    return _generated(build, x.size, fill, x.dtype, x.device)


@lowering(aten.fill.Scalar, aten.fill.Tensor)
def fill(build: Builder, x: Value, fill: Any) -> Value:
    """One number everywhere."""
    if isinstance(fill, Value) and fill.device != x.device:
        # x[:, 1] = 3 has a literal on the CPU, whose memory no GPU can read.
        fill = _literal(build, build.node.args[1] if build.node is not None else None)
    if isinstance(fill, Value):
        return build.call(aten.expand.default, build.call(aten._to_copy.default, fill, dtype=x.dtype), x.size)
    return _generated(build, x.size, fill, x.dtype, x.device)


def _literal(build: Builder, node: Any) -> bool | int | float:
    """The number that a tensor was created from when the graph was traced.

    Raises:
        NoLowering: it was created from none, and is on another device than what it is used with.
    """
    is_literal = isinstance(node, fx.Node) and node.target is aten.lift_fresh_copy.default
    tensor = build.own_tensors.get(node.args[0]) if is_literal else None
    if tensor is None or tensor.ndim or tensor.device.type != "cpu" or tensor.is_complex():
        raise NoLowering(ON_SEVERAL_DEVICES)
    # Graphs are lowered in a mode of fake tensors, which have no numbers.
    with torch_internals.dispatch_modes()._disable_current_modes():
        number: bool | int | float = tensor.item()
    return number


# Uninitialised memory may hold any values; with zeros the result is the same in each run.
@lowering(aten.zeros.default, aten.empty.memory_format, aten.empty_permuted.default)
def zeros(build: Builder, size: Sequence[Any], *_: Any, dtype: Any = None, device: Any = None, **__: Any) -> Value:
    """Zero everywhere."""
    return _generated(build, size, 0, dtype, device)


@lowering(aten.ones.default)
def ones(build: Builder, size: Sequence[Any], *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
    """One everywhere."""
    return _generated(build, size, 1, dtype, device)


@lowering(aten.zeros_like.default, aten.empty_like.default)
def zeros_like(build: Builder, x: Value, **_: Any) -> Value:
    """Zero everywhere."""
    return _generated(build, x.size, 0, x.dtype, x.device)


@lowering(aten.ones_like.default)
def ones_like(build: Builder, x: Value, **_: Any) -> Value:
    """One everywhere."""
    return _generated(build, x.size, 1, x.dtype, x.device)


@lowering(aten.new_zeros.default, aten.new_empty.default, aten.new_empty_strided.default)
def new_zeros(build: Builder, x: Value, size: Sequence[Any], *_: Any, **__: Any) -> Value:
    """Zero everywhere."""
    return _generated(build, size, 0, x.dtype, x.device)


@lowering(aten.new_ones.default)
def new_ones(build: Builder, x: Value, size: Sequence[Any], **_: Any) -> Value:
    """One everywhere."""
    return _generated(build, size, 1, x.dtype, x.device)


@lowering(aten.new_full.default)
def new_full(build: Builder, x: Value, size: Sequence[Any], fill: Any, **_: Any) -> Value:
    """One number everywhere."""
    return _generated(build, size, fill, x.dtype, x.device)


@lowering(aten.empty_strided.default)
def empty_strided(
    build: Builder, size: Sequence[Any], stride: Any, *, dtype: Any = None, device: Any = None, **_: Any
) -> Value:
    """Zero everywhere."""
    return _generated(build, size, 0, dtype, device)


@lowering(aten.scalar_tensor.default, torch.ops.prims.scalar_tensor.default)
def scalar_tensor(build: Builder, value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
    """A number as a tensor without dimensions."""
    return _generated(build, (), value, dtype, device)


@lowering(aten.arange.start_step)
def arange(build: Builder, start: Any, end: Any, step: Any = 1, **_: Any) -> Value:
    """``start``, ``start + step``, ... below ``end``."""
    assert build.node is not None
    predicted = build.node.meta["val"]
    if predicted.dtype == torch.bool:
        raise NoLowering("eager mode has no range of bools")
    if predicted.dtype.is_floating_point:
        # As ATen does: in double, rounded once.
        coordinate = cast(IndexOf(loop_variable(0), torch.int64), torch.float64)
        body: Expr = operand(start, torch.float64, ()) + coordinate * operand(step, torch.float64, ())
    else:
        # arange(0.0, 4.0, dtype=torch.int64): the numbers are whole, though they are given as floats.
        first, stride = (index(each if not isinstance(each, float) else int(each)) for each in (start, step))
        body = IndexOf(first + stride * loop_variable(0), torch.int64)
    return _generated(build, predicted.shape, body, None, None)


@lowering(aten.arange.start)
def arange_start(build: Builder, start: Any, end: Any, **_: Any) -> Value:
    """``start``, ``start + 1``, ... below ``end``."""
    return arange(build, start, end, 1)


@lowering(aten.arange.default)
def arange_end(build: Builder, end: Any, **_: Any) -> Value:
    """``0, 1, ...`` below ``end``."""
    return arange(build, 0, end, 1)


@lowering(aten.linspace.default)
def linspace(build: Builder, start: Any, end: Any, steps: Any, **_: Any) -> Value:
    """``steps`` numbers from ``start`` to ``end`` at equal distances, each computed from the nearer end."""
    count = known_number(index(steps))
    # The middle, from which it is counted from the other end, has to be a number.
    if count is None:
        raise NoLowering("a linspace of symbolic length")
    assert build.node is not None
    dtype = build.node.meta["val"].dtype
    wide = compute_dtype(dtype) if dtype.is_floating_point else torch.float64
    first, last = operand(start, wide, ()), operand(end, wide, ())
    step = (last - first) / float(max(count - 1, 1))
    coordinate = loop_variable(0)
    from_start = first + step * cast(IndexOf(coordinate, torch.int64), wide)
    from_end = last - step * cast(IndexOf(count - 1 - coordinate, torch.int64), wide)
    # Rounding errors grow with the distance from the first number. Computed from both ends, the last element is
    # ``end``.
    half = apply("lt", IndexOf(coordinate, torch.int64), constant(count // 2, torch.int64))
    return _generated(build, (steps,), apply("where", half, from_start, from_end) if count > 1 else first, None, None)


@lowering(torch.ops.prims.iota.default)
def iota(
    build: Builder, length: Any, *, start: Any, step: Any, dtype: torch.dtype, device: Any, requires_grad: bool
) -> Value:
    """``start``, ``start + step``, ...: ``length`` of them."""
    body = IndexOf(index(start) + index(step) * loop_variable(0), torch.int64)
    return _generated(build, (length,), body, dtype, device)


@lowering(aten.eye.default, aten.eye.m)
def eye(build: Builder, rows: Any, columns: Any = None, *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
    """One on the diagonal, zero elsewhere."""
    size = (rows, rows if columns is None else columns)
    same = apply("eq", IndexOf(loop_variable(0), torch.int64), IndexOf(loop_variable(1), torch.int64))
    return _generated(build, size, cast(same, dtype or torch.get_default_dtype()), dtype, device)


def _triangle(build: Builder, x: Value, diagonal: Any, op: str) -> Value:
    row, column = loop_variable(x.ndim - 2), loop_variable(x.ndim - 1)
    inside = apply(op, IndexOf(column - row, torch.int64), IndexOf(index(diagonal), torch.int64))
    # Two indices that are not negative are narrowed to int32 (scheduling/int32_narrowing.py); a difference is not.
    if known_number(index(diagonal)) is not None:
        inside = apply(op, IndexOf(column, torch.int64), IndexOf(row + index(diagonal), torch.int64))
    zero = constant(0, x.body.dtype)
    return Value(x.dtype, x.device, x.size, apply("where", inside, x.body, zero), (*x.from_nodes, *build.origin()))


@lowering(aten.tril.default)
def tril(build: Builder, x: Value, diagonal: Any = 0) -> Value:
    """Zero above a diagonal."""
    return _triangle(build, x, diagonal, "le")


@lowering(aten.triu.default)
def triu(build: Builder, x: Value, diagonal: Any = 0) -> Value:
    """Zero below a diagonal."""
    return _triangle(build, x, diagonal, "ge")
