"""Flex attention on a GPU as kernels, instead of products with all scores in memory: which nodes, and the kernels.

    mark(graph, ...)     flex_attention.meta["nbcompile_flex_kernel"] = FlexForward(kernel 0, 16 programs, ...)

A node is marked before the graph is lowered (lowering/flex_attention.py). What the kernels do not compute is called
through ATen, with the reason: the largest scores as a result, operators without code. Batch, rows, keys and strides may
be symbolic, numbers and widths of heads not.

In torch: torch/_inductor/kernel/flex/flex_attention.py. Read next: nbcompile/codegen/triton_flex.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch import fx

from nbcompile.codegen import triton_flex
from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.triton_flex_backward import (
    GRADIENT,
    FlexBackward,
    emit_of_keys,
    emit_of_query,
    parameters_of_keys,
    parameters_of_query,
)
from nbcompile.codegen.triton_flex_tiles import BlockList, BlockMask, Flex, FlexSizes
from nbcompile.codegen.triton_sizes import Size, multiplied, quotient, size_text
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.gpu.grouped_tuning import hint
from nbcompile.ir.index import index, known_equal
from nbcompile.ir.kernel import ProductTile
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.flex_attention import BACKWARD, OPERATOR, FlexForward, FlexGradients
from nbcompile.lowering.kernel_launches import KERNEL
from nbcompile.lowering.registry import NoLowering

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
NAME = "triton_flex_attention"
WIDEST = 128
"""Columns of a head, at most: a tile has all of them in registers."""
SHORT = 128
"""Rows of a query: with fewer, torch lets several programs share the keys."""
OF_KEYS = ("counts", "positions", "full_counts", "full_positions")
"""Names of the lists of blocks, which begin at this position of torch's tuple; those of the rows follow."""
LISTS_AT = 2


def mark(module: fx.GraphModule, device: torch.device | None, multiprocessors: Callable[[], int]) -> None:
    """Give each attention of a GPU its kernels, or the reason why it has none.

    Args:
        module: The graph.
        device: The device on which its tensors are assumed to be; None: the device on which they are.
        multiprocessors: Returns the number of the GPU's multiprocessors.
    """
    nodes = [node for node in module.graph.nodes if node.target in (OPERATOR, BACKWARD)]
    for node in nodes:
        if (device or node.args[0].meta["val"].device).type == "cuda":
            try:
                if node.target is OPERATOR:
                    node.meta[KERNEL] = _forward(node, module, multiprocessors)
                else:
                    node.meta[KERNEL] = _backward(node, module)
            except (NoLowering, NoTriton, UnprintableIndex) as reason:
                node.meta[KERNEL] = f"flex attention through ATen: {reason}"


# -- the attention itself ----------------------------------------------------------------------------------------------


def _forward(node: fx.Node, module: fx.GraphModule, multiprocessors: Callable[[], int]) -> FlexForward:
    given: Any = node.args
    query, key, value, score, blocks, scale, options, *buffers = given
    # The kernels store the first two of the three results (output, logarithms of the sums, largest scores).
    used = {user.args[1] for user in node.users}
    if not used <= {0, 1}:
        raise NoLowering("whose largest scores are used")
    tensors = {"query": query, "key": key, "value": value}
    strides = {"out": node.meta["val"][0].stride()}
    functions = getattr(module, score.target), getattr(module, blocks[-1].target)
    lists = _listed(blocks, 0)
    flex = _flex(tensors, strides, functions, _block_mask(blocks, lists, query), float(scale), buffers)
    splits = _splits(flex, options, multiprocessors)
    tile = triton_flex.tile(flex, splits)
    _expect_blocks(flex, tile if not splits else ProductTile(flex.blocks.rows, tile.columns, 0))
    name = f"{NAME}_split" if splits else NAME
    source = triton_flex.emit(flex, name, splits)
    parameters, programs = triton_flex.parameters(flex, splits), triton_flex.grid(flex, splits)
    rounds = quotient(flex.sizes.keys, tile.columns * max(splits, 1))
    launch = WrittenKernel(name, source, parameters, programs, tile.warps, tile.stages, rounds, flex.symbols)
    combination = None
    if splits:
        source = triton_flex.emit_combination(flex, f"{NAME}_combine", splits)
        rows = multiplied(multiplied(flex.sizes.batch, flex.sizes.heads), flex.sizes.rows)
        combination = WrittenKernel(f"{NAME}_combine", source, triton_flex.COMBINED, rows, 1, 1, sizes=flex.symbols)
    return FlexForward(launch, combination, tensors | lists | _named(flex, buffers), splits)


def _splits(flex: Flex, options: Mapping[str, Any], multiprocessors: Callable[[], int]) -> int:
    """Programs that share the keys of a row; 0 where torch has one program for each tile of rows."""
    sizes, shared = flex.sizes, flex.sizes.shared
    heads_of_lists = {blocks.positions_size[1] for blocks in flex.blocks.lists}
    may_split = (
        isinstance(sizes.rows, int)
        and sizes.rows < SHORT
        and not options.get("FORCE_USE_FLEX_ATTENTION", False)
        and shared & (shared - 1) == 0
        # Heads that share keys are in one tile: they have one list.
        and (heads_of_lists == {1} or shared == 1)
        and flex.blocks.rows >= sizes.rows
    )
    if not may_split:
        return 0
    columns = triton_flex.tile(flex, 1).columns
    # Two programs for each multiprocessor, and no more than there are tiles of keys.
    batch, _, keys = sizes.hints
    programs = multiprocessors() // (batch * sizes.heads_of_keys) * 2
    splits = min(programs, -(-keys // columns))
    return splits if splits > 1 else 0


# -- its gradients -----------------------------------------------------------------------------------------------------


def _backward(node: fx.Node, module: fx.GraphModule) -> FlexGradients:
    given: Any = node.args
    query, key, value, out, sums, grad, grad_sums, score, joint, blocks, scale, _, *buffers = given
    if grad is None:
        raise NoLowering("of which only the logarithms of the sums have a gradient")
    tensors = {"query": query, "key": key, "value": value, "grad": grad}
    of_query, of_key, of_value, _ = node.meta["val"]
    strides = {"grad_query": of_query.stride()}
    batch = query.meta["val"].shape[0]
    for name, fake in (("grad_key", of_key), ("grad_value", of_value)):
        # Batches that share their keys have gradients of their own first, without gaps.
        is_whole = known_equal(index(fake.shape[0]), index(batch))
        strides[name] = (fake if is_whole else fake.new_empty((batch, *fake.shape[1:]))).stride()
    functions = getattr(module, score.target), getattr(module, blocks[-1].target)
    derivative = getattr(module, joint.target)
    arguments = tensors | {"out": out, "sums": sums}
    backwards = []
    # Two kernels with two orders: the query's gradient adds up over blocks of keys,
    # those of keys and values over blocks of rows, for which torch has lists of its own.
    for of_rows in (False, True):
        lists = _listed(blocks, len(OF_KEYS) * of_rows)
        flex = _flex(tensors, strides, functions, _block_mask(blocks, lists, query), float(scale), buffers)
        backwards.append(FlexBackward(flex, derivative, _captured(derivative, len(buffers[0]))))
        _expect_blocks(flex, backwards[-1].tile)
        arguments |= lists | _named(flex, buffers)
    if grad_sums is not None:
        arguments["grad_sums"] = grad_sums
    captured = {f"{GRADIENT}{number}": number for number in backwards[0].captured}
    return FlexGradients(*_launches_of_gradients(*backwards), arguments, captured)


def _launches_of_gradients(by_rows: FlexBackward, by_keys: FlexBackward) -> tuple[WrittenKernel, WrittenKernel]:
    """The kernel of the query's gradient, and that of the keys and values."""
    name = f"{NAME}_of_query"
    source, parameters = emit_of_query(by_rows, name), parameters_of_query(by_rows.flex)
    tile, sizes = by_rows.tile, by_rows.flex.sizes
    rounds, symbols = quotient(sizes.keys, tile.columns), by_rows.flex.symbols
    of_query = WrittenKernel(name, source, parameters, by_rows.grid_of_query, tile.warps, tile.stages, rounds, symbols)
    name = f"{NAME}_of_keys"
    source, parameters = emit_of_keys(by_keys, name), parameters_of_keys(by_keys)
    tile, rounds, symbols = by_keys.tile, quotient(sizes.rows, by_keys.tile.rows), by_keys.flex.symbols
    of_keys = WrittenKernel(name, source, parameters, by_keys.grid_of_keys, tile.warps, tile.stages, rounds, symbols)
    return of_query, of_keys


def _captured(joint: fx.GraphModule, buffers: int) -> tuple[int, ...]:
    """Numbers of the tensors that get a gradient."""
    (output,) = joint.graph.find_nodes(op="output")
    gradients = output.args[0][-buffers:] if buffers else ()
    found = tuple(number for number, gradient in enumerate(gradients) if gradient is not None)
    if found and torch.are_deterministic_algorithms_enabled():
        raise NoLowering("whose function reads tensors with gradients: atomic additions are not deterministic")
    return found


# -- what both have ----------------------------------------------------------------------------------------------------


def _flex(
    tensors: Mapping[str, fx.Node], strides: Mapping[str, Sequence[int | torch.SymInt]],
    functions: tuple[fx.GraphModule, fx.GraphModule], mask: tuple[BlockMask, Sequence[int | torch.SymInt]],
    scale: float, buffers: Sequence[Any],
) -> Flex:  # fmt: skip
    """Sizes, strides and functions of an attention."""
    fakes = {name: node.meta["val"] for name, node in tensors.items()}
    _expect_supported([*fakes.values()], [node.meta["val"] for group in buffers for node in group])
    of_score, of_mask = (
        tuple((f"{kind}{at}", node.meta["val"]) for at, node in enumerate(group))
        for kind, group in zip(("of_score", "of_mask"), buffers, strict=True)
    )
    blocks, sizes_of_lists = mask
    given = {name: fake.stride() for name, fake in fakes.items()} | dict(strides)
    sizes = [size for fake in fakes.values() for size in fake.shape]
    numbers = map(index, (*sizes, *sizes_of_lists, *(step for stride in given.values() for step in stride)))
    symbols = tuple(sorted({symbol.name for number in numbers for symbol in number.free_symbols}))
    all_strides = {name: _texts(stride) for name, stride in given.items()}
    of_all = _sizes([*fakes.values()][:3])
    return Flex(of_all, all_strides, blocks, scale, *functions, of_score, of_mask, fakes["query"].dtype, symbols)


def _texts(sizes: Sequence[int | torch.SymInt]) -> tuple[Size, ...]:
    return tuple(map(size_text, sizes))


def _sizes(fakes: Sequence[torch.Tensor]) -> FlexSizes:
    (batch, heads, rows, width), (of_keys, heads_of_keys, keys, _), (*_, value_width) = (fake.shape for fake in fakes)
    _expect_one_or(of_keys, batch)
    hints = hint(batch), hint(rows), hint(keys)
    return FlexSizes(
        size_text(batch),
        heads,
        size_text(rows),
        size_text(keys),
        width,
        value_width,
        size_text(of_keys),
        heads_of_keys,
        hints,
    )


def _listed(blocks: Sequence[Any], first: int) -> dict[str, fx.Node]:
    """Counts and positions of the blocks to process, and of full ones, if there are any."""
    suffix = "_of_rows" if first else ""
    found = blocks[LISTS_AT + first : LISTS_AT + first + len(OF_KEYS)]
    return {name + suffix: node for name, node in zip(OF_KEYS, found, strict=True) if node is not None}


def _block_mask(
    blocks: Sequence[Any], lists: Mapping[str, fx.Node], query: fx.Node
) -> tuple[BlockMask, Sequence[int | torch.SymInt]]:
    """The lists of blocks, and all their sizes and strides."""
    if not lists:
        raise NoLowering("without lists of the blocks of rows")
    names, fakes = [*lists], [node.meta["val"] for node in lists.values()]
    _expect_hints(fakes)
    for fake in fakes:
        for extent, whole in zip(fake.shape[:2], query.meta["val"].shape, strict=False):
            _expect_one_or(extent, whole)
    layouts = [(_texts(fake.shape), _texts(fake.stride())) for fake in fakes]
    rows, keys, _ = blocks[-3:]
    if not isinstance(rows, int) or not isinstance(keys, int):
        raise NoLowering("with blocks of dynamic size")
    pairs = range(0, len(names), 2)
    listed = tuple(BlockList(names[at], names[at + 1], *layouts[at], *layouts[at + 1]) for at in pairs)
    return BlockMask(rows, keys, listed), [size for fake in fakes for size in (*fake.shape, *fake.stride())]


def _named(flex: Flex, buffers: Sequence[Sequence[fx.Node]]) -> dict[str, fx.Node]:
    """The tensors that the functions read, by the names of the kernel's arguments."""
    names = [name for name, _ in (*flex.score_buffers, *flex.mask_buffers)]
    return dict(zip(names, (node for group in buffers for node in group), strict=True))


def _expect_known(tensors: Sequence[torch.Tensor]) -> None:
    if not all(isinstance(number, int) for tensor in tensors for number in (*tensor.shape, *tensor.stride())):
        raise NoLowering("whose functions read tensors of dynamic size")


def _expect_hints(tensors: Sequence[torch.Tensor]) -> None:
    """A tile is chosen for the sizes of one call."""
    sizes = [size for tensor in tensors for size in (*tensor.shape, *tensor.stride())]
    if not all(isinstance(size, int) or size.node.has_hint() for size in sizes):
        raise NoLowering("of a size that depends on the elements of a tensor")


def _expect_one_or(extent: int | torch.SymInt, whole: int | torch.SymInt) -> None:
    """A symbolic extent is that of a whole dimension; another one might be 1 in some call, and be broadcast."""
    if not isinstance(extent, int) and not known_equal(index(extent), index(whole)):
        raise NoLowering("with a dimension that may be shared in one call and not in another")


def _expect_supported(fakes: Sequence[torch.Tensor], buffers: Sequence[Any]) -> None:
    if not all(isinstance(buffer, torch.Tensor) for buffer in buffers):
        raise NoLowering("whose functions read numbers of the program")
    _expect_known(buffers)
    _expect_hints(fakes)
    if not all(isinstance(size, int) for fake in fakes for size in (fake.shape[1], fake.shape[3])):
        raise NoLowering("of dynamic numbers or widths of heads")
    if any(hint(size) == 0 for fake in fakes for size in fake.shape):
        raise NoLowering("without elements")
    if fakes[0].dtype not in DTYPES or any(fake.dtype != fakes[0].dtype for fake in fakes):
        raise NoLowering(f"in {fakes[0].dtype}")
    if max(fakes[0].shape[-1], fakes[2].shape[-1]) > WIDEST:
        raise NoLowering(f"of heads of more than {WIDEST} columns")


def _expect_blocks(flex: Flex, tile: ProductTile) -> None:
    """A tile is within one block."""
    blocks, sizes = flex.blocks, flex.sizes
    for block, part, whole in ((blocks.rows, tile.rows, sizes.rows), (blocks.keys, tile.columns, sizes.keys)):
        if block % part and (isinstance(whole, str) or block < whole):
            raise NoLowering(f"with blocks of {block}")
