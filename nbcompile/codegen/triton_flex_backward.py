"""Triton kernels of the gradients of attention whose scores functions change; the scores are recomputed.

    weights = exp(scores - logarithm of the row's sum)                               as in the forward pass
    change = weights * (tl.dot(gradient, values) - delta)                            of the scores
    change = the derivative of the program's function, of raw scores and change      its graph, as an expression

    of query    a program has a tile of rows, and iterates over the listed blocks of keys:  result += change @ keys
    of keys     a program has a tile of keys, and iterates over the listed blocks of rows, of all heads that share
                these keys:                                 result += change.T @ rows, and weights.T @ gradient

``delta`` is the sum of result times gradient in a row. The second kernel computes the gradients of tensors that the
function reads, by atomic additions to float32 numbers.

In torch: torch/_inductor/kernel/flex/flex_attention.py. Read next: nbcompile/lowering/flex_attention.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import fx

from nbcompile.codegen.triton_flex_tiles import (
    LN_2,
    Flex,
    TileLoop,
    begin_flex,
    emit_lines,
    emit_steps,
    offset_text,
    scores,
    tile_load,
    tile_of,
)
from nbcompile.codegen.triton_graph import Scatter, results
from nbcompile.codegen.triton_sizes import Size, multiplied, quotient
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.ir.kernel import ProductTile

GRADIENT = "gradient_of"
"""Names of arguments that gradients of the function's tensors are added to: ``gradient_of0``."""


@dataclass(frozen=True, slots=True)
class FlexBackward:
    """The gradients of one attention."""

    flex: Flex
    """Attention whose lists are those of the kernel: blocks of keys, or of rows."""
    joint: fx.GraphModule
    """Graph from score, position, the score's gradient and tensors to their gradients, None where there is none."""
    captured: tuple[int, ...]
    """Numbers of the tensors of the function that get a gradient."""

    @property
    def tile(self) -> ProductTile:
        """Rows and keys of a program's tile."""
        # Two results of a wide head, and the tiles of both factors, are too much for four warps' registers.
        warps = 8 if max(self.flex.sizes.padded) > 64 else 4
        return replace(tile_of(self.flex, self.flex.sizes.hints[1]), warps=warps)

    @property
    def grid_of_query(self) -> Size:
        """Number of programs."""
        sizes = self.flex.sizes
        return multiplied(multiplied(quotient(sizes.rows, self.tile.rows), sizes.batch), sizes.heads)

    @property
    def grid_of_keys(self) -> Size:
        """Number of programs."""
        sizes = self.flex.sizes
        return multiplied(multiplied(quotient(sizes.keys, self.tile.columns), sizes.batch), sizes.heads_of_keys)

    @property
    def parenthesized(self) -> FlexBackward:
        """The same with the kernel's names of sizes."""
        return replace(self, flex=self.flex.parenthesized)


def parameters_of_query(flex: Flex) -> tuple[str, ...]:
    """Names of the arguments of the first kernel."""
    return ("query", "key", "value", "grad", "sums", "delta", "grad_query", *flex.lists_and_buffers)


def parameters_of_keys(backward: FlexBackward) -> tuple[str, ...]:
    """Names of the arguments of the second kernel."""
    captured = (f"{GRADIENT}{number}" for number in backward.captured)
    results = ("grad_key", "grad_value", *captured)
    return ("query", "key", "value", "grad", "sums", "delta", *results, *backward.flex.lists_and_buffers)


def emit_of_query(backward: FlexBackward, name: str) -> str:
    """The kernel of the query's gradient.

    Raises:
        NoTriton: a function has an operator without code.
    """
    writer = begin_flex(backward.flex, name, parameters_of_query(backward.flex))
    backward = backward.parenthesized
    flex, tile = backward.flex, backward.tile
    emit_lines(writer, _begin_of_query(backward))
    for at, blocks in enumerate(flex.blocks.lists):
        number = f"first // {flex.blocks.rows}"
        numbers = f"tl.arange(0, {tile.columns})[None, :]"
        emit_steps(writer, blocks, TileLoop(number, flex.blocks.keys, flex.sizes.keys, "j", numbers))
        emit_lines(writer, _step_of_query(backward, requires_mask=at == 0))
        writer.depth -= 2
    stride = flex.strides["grad_query"]
    mask = f"(i < {flex.sizes.rows}) & (d[None, :] < {flex.sizes.width})"
    element = f"b.to(tl.int64) * {stride[0]} + h.to(tl.int64) * {stride[1]} + {offset_text('i', 'd[None, :]', stride)}"
    writer.line(f"tl.store(grad_query + {element}, result.to(grad_query.dtype.element_ty), {mask})")
    return writer.text()


def _columns(flex: Flex) -> Iterator[str]:
    width, value_width = flex.sizes.padded
    yield f"of_batch = {'b.to(tl.int64)' if flex.sizes.batch_of_keys != 1 else 'b.to(tl.int64) * 0'}"
    yield f"d = tl.arange(0, {width})"
    yield f"e = tl.arange(0, {value_width})"


def _begin_of_query(backward: FlexBackward) -> Iterator[str]:
    flex, rows = backward.flex, backward.tile.rows
    sizes, strides = flex.sizes, flex.strides
    tiles = quotient(sizes.rows, rows)
    yield f"matrix = tl.program_id(0) // ({tiles})"
    yield f"first = tl.program_id(0) % ({tiles}) * {rows}"
    yield f"b = matrix // {sizes.heads}"
    yield f"h = matrix % {sizes.heads}"
    yield f"of_head = (h // {sizes.shared}).to(tl.int64)"
    yield from _columns(flex)
    for name in ("query", "grad"):
        yield f"{name} += b.to(tl.int64) * {strides[name][0]} + h.to(tl.int64) * {strides[name][1]}"
    for name in ("key", "value"):
        yield f"{name} += of_batch * {strides[name][0]} + of_head * {strides[name][1]}"
    yield f"i = first + tl.arange(0, {rows})[:, None]"
    yield f"rows = {tile_load('query', ('i', sizes.rows), ('d[None, :]', sizes.width), strides['query'])}"
    yield f"gradient = {tile_load('grad', ('i', sizes.rows), ('e[None, :]', sizes.value_width), strides['grad'])}"
    yield from _sums_of_rows(flex)
    yield f"result = tl.zeros([{rows}, {sizes.padded[0]}], tl.float32)"


def _sums_of_rows(flex: Flex) -> Iterator[str]:
    """The divisor of a row, as a logarithm, and its delta: a column or row of the tile, as ``i`` is."""
    rows = flex.sizes.rows
    yield f"logarithm = tl.load(sums + matrix.to(tl.int64) * {rows} + i, i < {rows}, float('-inf')) * {LN_2!r}"
    # A row without a key has minus infinity, which must not be subtracted from itself.
    yield "base = tl.where(logarithm == float('-inf'), 0.0, logarithm)"
    yield f"expected = tl.load(delta + matrix.to(tl.int64) * {rows} + i, i < {rows}, 0.0)"


def _step_of_query(backward: FlexBackward, *, requires_mask: bool) -> Iterator[str]:
    flex, tile = backward.flex, backward.tile
    sizes, strides = flex.sizes, flex.strides
    yield f"k = tl.reshape(j, [{tile.columns}])"
    keys = tile_load("key", ("k[:, None]", sizes.keys), ("d[None, :]", sizes.width), strides["key"])
    yield f"keys = {keys}"
    yield f'raw = tl.dot(rows, tl.trans(keys), input_precision="ieee") * {flex.scale!r}'
    values = tile_load("value", ("k[:, None]", sizes.keys), ("e[None, :]", sizes.value_width), strides["value"])
    yield f"values = {values}"
    yield 'change = tl.dot(gradient, tl.trans(values), input_precision="ieee")'
    yield from _change(backward, f"[{tile.rows}, {tile.columns}]", requires_mask=requires_mask)
    yield 'result = tl.dot(change.to(keys.dtype), keys, result, input_precision="ieee")'


def _change(backward: FlexBackward, shape: str, *, requires_mask: bool, adds: bool = False) -> Iterator[str]:
    """The gradient of a tile of scores, from the product of gradient and values."""
    flex = backward.flex
    inside = f"(i < {flex.sizes.rows}) & (j < {flex.sizes.keys})"
    yield from scores(flex, shape, inside, "inside", requires_mask=requires_mask)
    yield "weights = tl.exp(scores - base)"
    # The derivative of a softmax is weights * (change - sum of weights * change). That sum, over a
    # whole row, equals the sum of result * gradient, so that it is known before the first tile (delta).
    yield "change = weights * (change - expected)"
    arguments = ("raw", "b", "h", "i", "j", "change")
    found, lines = results(backward.joint, arguments, flex.score_buffers, "inside", shape, "change_")
    yield from lines
    mask = "inside & allowed" if requires_mask else "inside"
    for number in backward.captured if adds else ():
        # The graph returns gradients of the function's five arguments, and then of its tensors.
        gradient = found[len(arguments) - 1 + number]
        if not isinstance(gradient, Scatter):
            raise NoTriton("a tensor that a score_mod or mask_mod reads without an index")
        yield f"at = tl.broadcast_to({gradient.offset}, {shape})"
        yield f"amount = tl.broadcast_to(({gradient.value}).to(tl.float32), {shape})"
        yield f"tl.atomic_add({GRADIENT}{number} + at, amount, {mask})"
    if not isinstance(found[0], str):
        raise NoTriton("a score_mod or mask_mod that does not depend on the score")
    # A masked element may be anything, even NaN: its gradient is 0.
    yield f"change = tl.where({mask}, tl.broadcast_to(({found[0]}).to(tl.float32), {shape}) * {flex.scale!r}, 0.0)"


# -- of keys and values ------------------------------------------------------------------------------------------------


def emit_of_keys(backward: FlexBackward, name: str) -> str:
    """The kernel of the gradients of keys and values, and of tensors that the function reads.

    Raises:
        NoTriton: a function has an operator without code.
    """
    writer = begin_flex(backward.flex, name, parameters_of_keys(backward))
    backward = backward.parenthesized
    flex, tile = backward.flex, backward.tile
    emit_lines(writer, _begin_of_keys(backward))
    writer.line(f"for shared in range(0, {flex.sizes.shared}):")
    writer.depth += 2
    writer.line(f"h = of_head * {flex.sizes.shared} + shared")
    writer.line(f"matrix = b * {flex.sizes.heads} + h")
    for name_of in ("query", "grad"):
        stride = flex.strides[name_of]
        writer.line(f"{name_of}_of_head = {name_of} + b.to(tl.int64) * {stride[0]} + h.to(tl.int64) * {stride[1]}")
    for at, blocks in enumerate(flex.blocks.lists):
        number = f"first // {flex.blocks.keys}"
        numbers = f"tl.arange(0, {tile.rows})[None, :]"
        emit_steps(writer, blocks, TileLoop(number, flex.blocks.rows, flex.sizes.rows, "i", numbers))
        emit_lines(writer, _step_of_keys(backward, requires_mask=at == 0))
        writer.depth -= 2
    writer.depth -= 2
    emit_lines(writer, _end_of_keys(flex))
    return writer.text()


def _begin_of_keys(backward: FlexBackward) -> Iterator[str]:
    flex, columns = backward.flex, backward.tile.columns
    sizes, strides = flex.sizes, flex.strides
    tiles = quotient(sizes.keys, columns)
    yield f"first = tl.program_id(0) % ({tiles}) * {columns}"
    yield f"b = tl.program_id(0) // ({multiplied(tiles, sizes.heads_of_keys)})"
    yield f"of_head = tl.program_id(0) // ({tiles}) % {sizes.heads_of_keys}"
    yield from _columns(flex)
    for name in ("key", "value"):
        yield f"{name} += of_batch * {strides[name][0]} + of_head.to(tl.int64) * {strides[name][1]}"
    yield f"j = first + tl.arange(0, {columns})[:, None]"
    yield f"keys = {tile_load('key', ('j', sizes.keys), ('d[None, :]', sizes.width), strides['key'])}"
    yield f"values = {tile_load('value', ('j', sizes.keys), ('e[None, :]', sizes.value_width), strides['value'])}"
    for name, width in zip(("of_keys", "of_values"), sizes.padded, strict=True):
        yield f"{name} = tl.zeros([{columns}, {width}], tl.float32)"


def _step_of_keys(backward: FlexBackward, *, requires_mask: bool) -> Iterator[str]:
    """One tile of rows: the tile of scores is that of the other kernel, transposed."""
    flex, tile = backward.flex, backward.tile
    sizes, strides = flex.sizes, flex.strides
    yield f"r = tl.reshape(i, [{tile.rows}])"
    rows = tile_load("query_of_head", ("r[:, None]", sizes.rows), ("d[None, :]", sizes.width), strides["query"])
    yield f"rows = {rows}"
    yield f'raw = tl.dot(keys, tl.trans(rows), input_precision="ieee") * {flex.scale!r}'
    gradient = tile_load("grad_of_head", ("r[:, None]", sizes.rows), ("e[None, :]", sizes.value_width), strides["grad"])
    yield f"gradient = {gradient}"
    yield 'change = tl.dot(values, tl.trans(gradient), input_precision="ieee")'
    yield from _sums_of_rows(flex)
    yield from _change(backward, f"[{tile.columns}, {tile.rows}]", requires_mask=requires_mask, adds=True)
    yield 'of_values = tl.dot(weights.to(values.dtype), gradient, of_values, input_precision="ieee")'
    yield 'of_keys = tl.dot(change.to(keys.dtype), rows, of_keys, input_precision="ieee")'


def _end_of_keys(flex: Flex) -> Iterator[str]:
    sizes = flex.sizes
    for name, found, column, width in (
        ("grad_key", "of_keys", "d", sizes.width), ("grad_value", "of_values", "e", sizes.value_width),
    ):  # fmt: skip
        stride = flex.strides[name]
        element = f"b.to(tl.int64) * {stride[0]} + of_head.to(tl.int64) * {stride[1]} + "
        element += offset_text("j", f"{column}[None, :]", stride)
        mask = f"(j < {sizes.keys}) & ({column}[None, :] < {width})"
        yield f"tl.store({name} + {element}, {found}.to({name}.dtype.element_ty), {mask})"
