"""Matrix products as loops of the IR: for kernels of a GPU that compute a product and what follows it.

    relu(addmm(bias, x, w))     ->     buf0[i0, i1] = dot over r0 of x[i0, r0] * w[r0, i1]
                                       buf1[i0, i1] = max(buf0[i0, i1] + bias[i1], 0.0)

A product is a reduction of its own kind, so fusion puts what reads its elements into its kernel (the epilogue),
and a cheap operand is part of its body (the prologue). Whether a kernel of ours or the library's runs is decided later
(gpu/templates.py); a node in ``fallbacks`` is an extern call.

In torch: torch/_inductor/kernel/mm.py, bmm.py. Read next: nbcompile/codegen/triton_products.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, cast, constant as number_constant
from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    constant,
    flatten,
    index,
    is_one,
    loop_variable,
    loop_variables,
    reduction_variable,
    simplify,
    unflatten,
)
from nbcompile.ir.layout import contiguous, of_tensor
from nbcompile.ir.traversal import cost, loads, substitute
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import Value, broadcast_to, merge_nodes, reindexed

aten = torch.ops.aten
FACTORS_AT: dict[Any, int] = {
    aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1, aten.baddbmm.default: 1,
    aten._grouped_mm.default: 0,
}  # fmt: skip
"""Operators of products, with the position of the first factor; an argument before it is added to the product."""
TEMPLATE = "nbcompile_template"
"""Mark of a node that is lowered to a product in a kernel: the number of parts of the sum."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
PROLOGUE_COST = 4
"""Additions: an operand that costs more is computed once, in memory; a block of the product would compute its own."""
PROLOGUE_LOADS = 2
STEP = 64
"""Steps: the length of a part of a sum is a multiple of it, as long as of a tile."""
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def mark(
    graph: fx.Graph, device: torch.device | None, fallbacks: Mapping[str, str], parts: Mapping[str, int] | None
) -> None:
    """Mark the products that are to be kernels, each with the number of parts of its sum (1 unless it is named)."""
    for node in graph.nodes:
        # A graph is lowered several times, each time with more fallbacks: remove the old marks.
        node.meta.pop(TEMPLATE, None)
        if parts is not None and node.name not in fallbacks and _is_possible(node, device):
            node.meta[TEMPLATE] = parts.get(node.name, 1)


def _is_possible(node: fx.Node, device: torch.device | None) -> bool:
    at = FACTORS_AT.get(node.target)
    if at is None or node.kwargs.keys() - {"beta", "alpha"} or _is_grouped(node):
        return False
    if not all(isinstance(value, (int, float)) for value in node.kwargs.values()):
        return False
    result: torch.Tensor = node.meta["val"]
    operands = [argument.meta["val"] for argument in node.args if isinstance(argument, fx.Node)]
    if any(tensor.dtype != result.dtype or tensor.layout != torch.strided for tensor in (result, *operands)):
        return False
    left, right = operands[at : at + 2]
    sizes = (*of_tensor(left).size[-2:], of_tensor(right).size[-1])
    on_gpu = (device or result.device).type == "cuda"
    # With a dimension of one element the product is a sum, whose time is that of its memory accesses.
    return on_gpu and result.dtype in DTYPES and not any(size in (ZERO, ONE) for size in sizes)


def _is_grouped(node: fx.Node) -> bool:
    """Return whether a dimension is divided into groups (gpu/grouped_products.py); with a batch none is."""
    operands = [argument.meta["val"].dim() for argument in node.args if isinstance(argument, fx.Node)]
    return node.target is aten._grouped_mm.default and operands != [3, 3]


def lower_product(build: Builder, node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, float]) -> Value:
    """Lower a marked node."""
    at = FACTORS_AT[node.target]
    left, right = (operand(build, value) for value in args[at : at + 2])
    dtype = node.meta["val"].dtype
    rows = _row_dimensions(node, left)
    product = _product if node.meta[TEMPLATE] == 1 else partial(product_in_parts, node.meta[TEMPLATE])
    if not at:
        return _with_rows(product(build, left, right, rows, dtype), rows, left)
    # The library adds before it rounds, once.
    total = product(build, left, right, rows, torch.float32)
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    body = _scaled(total.body, alpha)
    if beta != 0:  # by definition, beta = 0 ignores the bias, even if it is nan
        body = apply("add", body, _scaled(_added(args[0], left, right, rows, total).body, beta))
    nodes = merge_nodes(args[0].from_nodes, total.from_nodes, build.origin())
    stored = build.realize(Value(dtype, total.device, total.size, body, nodes), contiguous(total.size))
    return _with_rows(stored, rows, left)


def _added(value: Value, left: Value, right: Value, rows: Sequence[Index], total: Value) -> Value:
    """Return what is added to a product, over the loops of the product."""
    whole = broadcast_to(value, (*left.size[:-1], right.size[-1]))
    if len(rows) == 1:
        return whole
    variables = loop_variables(total.ndim)
    return reindexed(whole, total.size, (flatten(variables[:-1], rows), variables[-1]))


def _with_rows(value: Value, rows: Sequence[Index], left: Value) -> Value:
    """A value with one dimension for all rows."""
    if len(rows) == 1:
        return value
    flat = loop_variable(0)
    # A linear layer multiplies (batch * time, depth), and a view makes (batch, time, columns) of
    # the result. The product has the loops of that view, so that what follows fuses with it.
    position = unflatten(flat, rows, {flat: left.size[0]})
    return reindexed(value, (left.size[0], value.size[-1]), (*position, loop_variable(1)))


def _scaled(body: Expr, factor: float) -> Expr:
    return body if factor == 1 else apply("mul", body, float(factor))


def operand(build: Builder, value: Any) -> Value:
    """Keep an operand as an expression of the product's loops if it is cheap; otherwise store it."""
    if not isinstance(value, Value):
        raise NoLowering("an operand of a product is no tensor")
    read = list(loads(value.body))
    is_cheap = cost(value.body) <= PROLOGUE_COST and 0 < len(read) <= PROLOGUE_LOADS
    return value if is_cheap and not any(load.gathers for load in read) else build.realize(value)


def _product(build: Builder, left: Value, right: Value, rows: Sequence[Index], dtype: torch.dtype) -> Value:
    """Append the buffer of a product: over the batch, the rows (in several dimensions, perhaps), and the columns."""
    batch = left.size[:-2]
    columns, depth = right.size[-1], left.size[-1]
    size = (*batch, *rows, columns)
    ranges = {loop_variable(at): extent for at, extent in enumerate(size)} | {reduction_variable(0): depth}
    variables = [ZERO if is_one(extent) else loop_variable(at) for at, extent in enumerate(size)]
    batch_index, row = variables[: len(batch)], flatten(variables[len(batch) : -1], rows)
    factors = (
        at_position(left, (*batch_index, row, reduction_variable(0)), ranges),
        at_position(right, (*batch_index, reduction_variable(0), variables[-1]), ranges),
    )
    name, nodes = build.fresh("buf"), merge_nodes(left.from_nodes, right.from_nodes, build.origin())
    # As for the library: tf32 only where the user allowed it. (``allow_tf32`` raises where this is set.)
    allowed = torch.backends.cuda.matmul.fp32_precision == "tf32"
    kind = "dot_tf32" if left.dtype == torch.float32 and allowed else "dot"
    body = apply("mul", *factors)
    build.add(
        ir.Reduction(name, dtype, left.device, contiguous(size), body, kind, (depth,), torch.float32, nodes)
    )  # fmt: skip
    return build.whole(name)


def product_in_parts(
    number: int, build: Builder, left: Value, right: Value, rows: Sequence[Index], dtype: torch.dtype
) -> Value:
    """Append a product whose sum is long in two steps, so that more programs share it: parts, and the sum of these.

    buf0[p, i0, i1] = dot over r0 < 512 of x[i0, 512*p + r0] * w[512*p + r0, i1]      in float32
    buf1[i0, i1]    = sum over p of buf0[p, i0, i1]                                   in order: always the same bits
    """
    batch, depth = left.ndim - 2, constant(left.size[-1])
    assert depth is not None
    length = part_length(depth, number)
    # Over batch, parts, rows, the sum; and over batch, parts, the sum, columns.
    factors = _part(left, batch + 1, depth, number, length), _part(right, batch, depth, number, length)
    products = _product(build, *factors, rows, torch.float32)
    return build.reduce(products, [batch], False, "sum", dtype, torch.float32)


def part_length(depth: int, number: int) -> int:
    """Length of each part of a sum; the last part has what is left."""
    if depth % number == 0 and depth // number % STEP == 0:
        return depth // number
    return -(-depth // (number * STEP)) * STEP


def _part(value: Value, along: int, depth: int, number: int, length: int) -> Value:
    """A factor with one dimension more, after those of the batch, for the parts of the sum."""
    batch = value.ndim - 2
    size = [*value.size[:batch], index(number), *value.size[batch:]]
    size[along + 1] = index(length)
    position = list(loop_variables(value.ndim + 1))
    part = position.pop(batch)
    summed = position[along] = index(length) * part + position[along]
    whole = reindexed(value, size, position)
    if length * number == depth:
        return whole
    is_there = apply("lt", IndexOf(summed, torch.int64), number_constant(depth, torch.int64))
    return replace(whole, body=Masked(is_there, whole.body, number_constant(0, whole.body.dtype)))


def at_position(value: Value, position: Sequence[Index], ranges: Mapping[Any, Index]) -> Expr:
    """A value's element at a position, rounded as in memory, in float32."""
    mapping = dict(zip(loop_variables(value.ndim), position, strict=True))
    body = substitute(value.body, mapping, (), lambda position: simplify(position, ranges))
    return cast(cast(body, value.dtype), torch.float32)


def _row_dimensions(node: fx.Node, left: Value) -> tuple[Index, ...]:
    """The dimensions of the rows in the only user's view of the result; otherwise the rows themselves.

    A linear layer is a product of two dimensions, and a view: the loops of what follows it are those of the view.
    """
    users = list(node.users)
    if left.ndim == 2 and len(users) == 1 and users[0].target in _VIEWS:
        size = of_tensor(users[0].meta["val"]).size
        columns = of_tensor(node.meta["val"]).size[-1]
        if len(size) > 2 and size[-1] == columns and not any(constant(extent) == 0 for extent in size):
            return size[:-1]
    return (left.size[-2],)
