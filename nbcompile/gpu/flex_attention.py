"""Flex attention on a GPU as one kernel, in place of products with all scores in memory: which nodes, and the kernel.

    mark(graph)     flex_attention.meta["nbcompile_flex_kernel"] = FlexLaunch(kernel 0, grid (2, 8, 1), query, key, ...)

A node is marked before the graph is lowered (lowering/flex_attention.py). What the kernel does not compute is called
through ATen, with the reason: dynamic sizes, the largest scores as a result, operators without code.

In torch: torch/_inductor/kernel/flex/flex_attention.py. Read next: nbcompile/codegen/triton_flex.py
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch import fx

from nbcompile import torch_internals
from nbcompile.codegen.triton_flex import BlockMask, Flex, FlexSizes, FlexStrides, emit
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.lowering.flex_attention import KERNEL, OPERATOR, FlexLaunch
from nbcompile.lowering.registry import NoLowering
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.runtime import triton as runtime_triton
else:  # imported where an attention is met: a process that launches does without Triton
    runtime_triton = lazy_import.module("nbcompile.runtime.triton")

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
NAME = "triton_flex_attention"
COUNTS, POSITIONS, FULL_COUNTS, FULL_POSITIONS = 2, 3, 4, 5
"""Positions in torch's tuple of a mask of blocks, which ends with sizes of a block and the function."""


def mark(module: fx.GraphModule, device: torch.device | None) -> None:
    """Give each attention of a GPU its kernel, or the reason why it has none."""
    for node in module.graph.find_nodes(op="call_function", target=OPERATOR):
        if (device or node.args[0].meta["val"].device).type == "cuda":
            try:
                node.meta[KERNEL] = _launch(node, module)
            except (NoLowering, NoTriton) as reason:
                node.meta[KERNEL] = f"flex attention through ATen: {reason}"


def _launch(node: fx.Node, module: fx.GraphModule) -> FlexLaunch:
    flex, arguments = _described(node, module)
    table = torch_internals.triton_kernel_wrap().kernel_side_table
    options = {"num_warps": flex.tile.warps, "num_stages": flex.tile.stages}
    kernel = table.add_kernel(_function(emit(flex, NAME)))
    return FlexLaunch(kernel, table.add_constant_args(options), flex.grid, flex.parameters, tuple(arguments))


@functools.lru_cache(maxsize=256)
def _function(source: str) -> Any:
    """The kernel, from a file of its own, as Triton reads it there."""
    return getattr(runtime_triton.load_source(source), NAME)


def _described(node: fx.Node, module: fx.GraphModule) -> tuple[Flex, list[fx.Node]]:
    """Sizes, strides and functions of an attention, and what is passed beside its results."""
    given: Any = node.args
    query, key, value, score, blocks, scale, _, *buffers = given
    fakes = [argument.meta["val"] for argument in (query, key, value)]
    _expect_supported(node, fakes)
    lists = [blocks[at] for at in (COUNTS, POSITIONS, FULL_COUNTS, FULL_POSITIONS) if blocks[at] is not None]
    names = ("counts", "positions", "full_counts", "full_positions")
    layouts: list[Any] = [(tuple(each.meta["val"].shape), tuple(each.meta["val"].stride())) for each in lists]
    rows, keys, mask = blocks[-3:]
    pairs = range(0, len(lists), 2)
    listed = tuple((names[at], names[at + 1], *layouts[at], *layouts[at + 1]) for at in pairs)
    of_score, of_mask = (
        tuple((f"{kind}{at}", each.meta["val"]) for at, each in enumerate(group))
        for kind, group in zip(("of_score", "of_mask"), buffers, strict=True)
    )
    strides = FlexStrides(*(tuple(fake.stride()) for fake in (*fakes, node.meta["val"][0])))
    flex = Flex(
        _sizes(fakes), strides, BlockMask(int(rows), int(keys), listed), float(scale), getattr(module, score.target),
        getattr(module, mask.target), of_score, of_mask, fakes[0].dtype,
    )  # fmt: skip
    _expect_blocks(flex)
    return flex, [query, key, value, *lists, *buffers[0], *buffers[1]]


def _sizes(fakes: Sequence[torch.Tensor]) -> FlexSizes:
    (batch, heads, rows, width), (of_keys, heads_of_keys, keys, _), (*_, value_width) = (fake.shape for fake in fakes)
    return FlexSizes(batch, heads, rows, keys, width, value_width, of_keys, heads_of_keys)


def _expect_supported(node: fx.Node, fakes: Sequence[torch.Tensor]) -> None:
    tensors = [argument.meta["val"] for argument in node.all_input_nodes if "val" in argument.meta]
    numbers = [number for tensor in tensors for number in (*tensor.shape, *tensor.stride())]
    if not all(isinstance(number, int) for number in numbers):
        raise NoLowering("of dynamic size")
    if 0 in numbers[:12]:
        raise NoLowering("without elements, or of an operand that is expanded")
    if fakes[0].dtype not in DTYPES or any(fake.dtype != fakes[0].dtype for fake in fakes):
        raise NoLowering(f"in {fakes[0].dtype}")
    if max(fakes[0].shape[-1], fakes[2].shape[-1]) > 128:
        raise NoLowering("of heads of more than 128 columns")
    used = {user.args[1] for user in node.users}
    if not used <= {0, 1}:
        raise NoLowering("whose largest scores are asked for")


def _expect_blocks(flex: Flex) -> None:
    """A tile is within one block."""
    blocks, tile, sizes = flex.blocks, flex.tile, flex.sizes
    for block, part, whole in ((blocks.rows, tile.rows, sizes.rows), (blocks.keys, tile.columns, sizes.keys)):
        if block % part and block < whole:
            raise NoLowering(f"with blocks of {block}")
