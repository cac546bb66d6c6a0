"""Elementwise operations on tensors: broadcasting, type promotion as torch does it, casts.

    elementwise(build, lambda a, b: a + b, (x, bias))      x[i0, i1] + float32(bias[i1])
    @pointwise(aten.relu.default)                          the same, as a decorator of a lowering

In torch: torch/_inductor/lowering.py (make_pointwise, promote_constants). Read next:
nbcompile/lowering/pointwise.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from nbcompile.ir.expr import Expr, IndexOf, cast, compute_dtype, constant
from nbcompile.ir.index import Index, is_one
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_size, broadcast_to, merge_nodes

SUPPORTED = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip
_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def promoted(*operands: Any) -> torch.dtype:
    """The dtype that torch computes an operation on tensors and numbers in (its rules of promotion).

    Tensors with dimensions have priority over those without, and these over numbers, unless the weaker operand's kind
    is higher:
    bool < integer < float < complex. Within a rank, the larger type. (torch.result_type returns the same for tensors,
    but would call a function mode that is active during the compile.)
    """
    ranks: dict[int, torch.dtype] = {}
    for value in operands:
        rank, dtype = _rank_and_dtype(value)
        ranks[rank] = _larger(ranks[rank], dtype) if rank in ranks else dtype
    # float16[2] + 1.5 stays float16, but int64[2] + 1.5 becomes a float: a weaker operand changes the
    # kind, not the size.
    # The strongest rank among the operands determines the size of the type.
    result, *weaker = (ranks[rank] for rank in sorted(ranks))
    for dtype in weaker:
        if _kind(dtype) > _kind(result):
            result = _larger(result, dtype)
    return result


def _larger(first: torch.dtype, second: torch.dtype) -> torch.dtype:
    """The type of both, as ``torch.promote_types`` says, which rejects a complex type with uint32; ATen does not."""
    for one, other in ((first, second), (second, first)):
        if one.is_complex and not other.is_complex and not other.is_floating_point:
            return one
    return torch.promote_types(first, second)


def _rank_and_dtype(value: Any) -> tuple[int, torch.dtype]:
    match value:
        case Value():
            #     rank 0   tensors with dimensions    float16[2] + tensor(1.5, float64)    float16
            #     rank 1   tensors without            int64[2] + tensor(1.5, float64)      float64
            #     rank 2   numbers                    int64[2] + 1.5                       default
            return (0 if value.ndim else 1), value.dtype
        case bool():
            return 2, torch.bool
        case int():
            return 2, torch.int64
        case sympy.Expr():
            return 2, torch.int64 if value.is_integer else torch.get_default_dtype()
        case float():
            return 2, torch.get_default_dtype()
        case complex():
            return 2, torch.promote_types(torch.get_default_dtype(), torch.complex32)
        case sympy.Basic():
            raise NoLowering(f"{value}, which is no number")
        case _:
            raise TypeError(f"{value!r} is no operand")


def _kind(dtype: torch.dtype) -> int:
    """Rank of a dtype in type promotion: bool, integer, floating point, complex."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1 if dtype != torch.bool else 0


def operand(value: Any, dtype: torch.dtype, size: tuple[Index, ...]) -> Expr:
    """A tensor or number as a body of a shape, in the type that is computed in."""
    wide = compute_dtype(dtype)
    match value:
        case Value():
            return cast(broadcast_to(value, size).body, wide)
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


def converted(value: Any, dtype: torch.dtype, size: tuple[Index, ...]) -> Expr:
    """Convert an operand to the dtype of the computation, with its precision: few digits for float16 and bfloat16."""
    body = operand(value, dtype, size)
    if isinstance(value, Value) and value.dtype == dtype:
        return body  # not rounded between two operators, as in torch.compile
    # Rounded as it would be in memory, then computed with in float32.
    return cast(cast(body, dtype), body.dtype)


def _computed_in(operands: tuple[Any, ...], tensors: Sequence[Value], kind: str) -> torch.dtype:
    """The type that operands are promoted to; rejected if it, or one of theirs, is not supported."""
    dtype = promoted(*operands)
    # exp of an integer is a float of the default dtype.
    if kind == "float" and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    for candidate in (dtype, *(tensor.dtype for tensor in tensors)):
        if candidate not in SUPPORTED:
            raise NoLowering(f"dtype {candidate}")
    return dtype


def elementwise(
    build: Builder,
    compute: Callable[..., Expr],
    operands: tuple[Any, ...],
    kind: str = "default",
    *,
    exact: int | None = None,
) -> Value:
    """Broadcast and promote the operands, and compute on their elements.

    ``kind``: ``default`` (result in the promoted type), ``float`` (integers
    become floats first) or ``compare`` (the result is bool).
    ``exact``: the position at which a number or a tensor of one element keeps its digits (``x * 0.1``, but not
    ``x + 0.1``, of bfloat16).
    """
    tensors = [value for value in operands if isinstance(value, Value)]
    if not tensors:
        raise NoLowering("no tensor among the operands")
    device = common_device(tensors)
    dtype = _computed_in(operands, tensors, kind)
    size = broadcast_size(*(tensor.size for tensor in tensors))
    body = compute(
        *(
            operand(value, dtype, size)
            if _is_exact(value, device) or (position == exact and has_one_element(value))
            else converted(value, dtype, size)
            for position, value in enumerate(operands)
        )
    )
    nodes = merge_nodes(*(tensor.from_nodes for tensor in tensors), build.origin())
    result = torch.bool if kind == "compare" else dtype
    return Value(result, device, size, cast(body, compute_dtype(result)), nodes)


def _rounded(factor: Any, operands: tuple[Any, ...]) -> Any:
    """A factor with the digits that the CPU's kernels of float16 and bfloat16 give it."""
    dtype = promoted(*operands)
    tensors = [operand for operand in operands if isinstance(operand, Value)]
    if dtype not in (torch.float16, torch.bfloat16) or not isinstance(factor, float):
        return factor
    if not tensors or _is_exact(factor, common_device(tensors)):
        return factor
    return torch.tensor(factor, dtype=dtype).item()


def has_one_element(value: Any) -> bool:
    """True of a number and of a tensor of one element, which the CPU's kernels of float16 and bfloat16 read as one."""
    return not isinstance(value, Value) or all(is_one(extent) for extent in value.size)


def is_number(value: Any, device: torch.device) -> bool:
    """True of an operand that eager mode's kernels of float16 and bfloat16 read as a number of float32."""
    return has_one_element(value) if device.type == "cpu" else not isinstance(value, Value)


def _is_exact(value: Any, device: torch.device) -> bool:
    """CUDA's kernels compute in float32 with numbers that are no tensors."""
    return device.type != "cpu" and not isinstance(value, Value)


def common_device(tensors: list[Value]) -> torch.device:
    """The device that all share."""
    devices = {each.device for each in tensors}
    if len(devices) > 1:
        raise NoLowering(f"tensors on several devices ({', '.join(sorted(map(str, devices)))})")
    return devices.pop()


def pointwise(
    *targets: Any,
    operands: int = 1,
    kind: str = "default",
    bools: bool = True,
    exact: int | None = None,
    rounds_factors: bool = False,
) -> Callable[[Callable[..., Expr]], Any]:
    """Lower operators to a function of bodies; arguments after the operands are passed on as they are.

    Without ``bools``, a call with True or False falls back to ATen, which raises the error of ``x - True``. With
    ``rounds_factors``
    the arguments after the operands are rounded to float16 and bfloat16 as operands are.
    """

    def register(compute: Callable[..., Expr]) -> Callable[..., Expr]:
        @lowering(*targets)
        @functools.wraps(compute)
        def lower(build: Builder, *args: Any, **kwargs: Any) -> Value:
            rest = args[operands:]
            if not bools and any(isinstance(each, bool) for each in args[:operands]):
                raise NoLowering("True and False are no numbers here")
            if rounds_factors:
                rest = tuple(_rounded(factor, args[:operands]) for factor in rest)
                kwargs = {name: _rounded(factor, args[:operands]) for name, factor in kwargs.items()}
            return elementwise(
                build, lambda *bodies: compute(*bodies, *rest, **kwargs), args[:operands], kind, exact=exact
            )

        return compute

    return register
