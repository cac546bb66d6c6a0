"""Triton kernel of attention whose scores functions change: one pass over the keys, the scores never in memory.

    flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h], block_mask=of i >= j)
    ->  for each listed block of keys:
            scores = tl.dot(q, k) * 0.125;  scores = scores + tl.load(bias + h);  -inf where not i >= j
            the largest score, the sum and the result of a row are rescaled, and the block is added

The functions are ATen graphs of numbers: batch, head, row and key are a number, or a row or column of the tile, so
Triton broadcasts them. Blocks that the mask lists as full are not asked; what it does not list is not read.

In torch: torch/_inductor/kernel/flex/. Read next: nbcompile/lowering/flex_attention.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from nbcompile.codegen.triton_graph import expressions
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.kernel import ProductTile

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FlexSizes:
    """Sizes of an attention; all are known."""

    batch: int
    heads: int
    rows: int
    keys: int
    width: int
    value_width: int
    batch_of_keys: int
    """1 where all batches of the query share keys and values."""
    heads_of_keys: int
    """Fewer than ``heads`` where several heads of the query share one."""

    @property
    def padded(self) -> tuple[int, int]:
        """Both widths as tiles have them: powers of two, 16 at least."""
        return tuple(max(16, 1 << (width - 1).bit_length()) for width in (self.width, self.value_width))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class BlockMask:
    """The lists of blocks: names of arguments, their sizes and strides."""

    rows: int
    keys: int
    """Rows and keys of a block."""
    lists: tuple[tuple[str, str, tuple[int, ...], Strides, tuple[int, ...], Strides], ...]
    """Names, sizes and strides of counts and positions: of the blocks that ask the mask, and of full ones."""


@dataclass(frozen=True, slots=True)
class FlexStrides:
    """Strides of the tensors that every kernel has."""

    query: Strides
    key: Strides
    value: Strides
    out: Strides


@dataclass(frozen=True, slots=True)
class Flex:
    """One attention."""

    sizes: FlexSizes
    strides: FlexStrides
    blocks: BlockMask
    scale: float
    score: fx.GraphModule
    mask: fx.GraphModule
    score_buffers: tuple[tuple[str, torch.Tensor], ...]
    """Names and (fake) tensors that the functions read."""
    mask_buffers: tuple[tuple[str, torch.Tensor], ...]
    dtype: torch.dtype

    @property
    def tile(self) -> ProductTile:
        """Rows and keys of a program's tile; few rows (decoding) have a flat one."""
        wide = max(self.sizes.padded) > 64 or self.dtype == torch.float32
        rows = 16 if self.sizes.rows <= 16 else 32 if wide and self.dtype == torch.float32 else 64
        # One stage: with two, the simulator finds a result that is used while matrix units still write it.
        return ProductTile(rows, 32 if wide else 64, max(self.sizes.padded), 4, 1)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        listed = [name for row in self.blocks.lists for name in row[:2]]
        buffers = [name for name, _ in (*self.score_buffers, *self.mask_buffers)]
        return ("query", "key", "value", "out", "sums", *listed, *buffers)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Programs: tiles of rows, and matrices."""
        return (-(-self.sizes.rows // self.tile.rows), self.sizes.batch * self.sizes.heads, 1)


def emit(flex: Flex, name: str) -> str:
    """The module's text: a function that ``triton.jit`` takes.

    Raises:
        NoTriton: a function has an operator without code.
    """
    writer = SourceWriter()
    for line in ("import triton", "import triton.language as tl", "from triton.language.extra import libdevice", ""):
        writer.line(line)
    writer.line("@triton.jit")
    writer.line(f"def {name}({', '.join(flex.parameters)}):")
    writer.depth += 2
    for line in _beginning(flex):
        writer.line(line)
    for at, row in enumerate(flex.blocks.lists):
        _emit_blocks(writer, flex, row, asks_mask=at == 0)
    for line in _end(flex):
        writer.line(line)
    return writer.text()


def _beginning(flex: Flex) -> Iterator[str]:
    sizes, tile = flex.sizes, flex.tile
    width, value_width = sizes.padded
    shared = sizes.heads // sizes.heads_of_keys
    query = flex.strides.query
    yield f"b = (tl.program_id(1) // {sizes.heads})"
    yield f"h = (tl.program_id(1) % {sizes.heads})"
    yield f"of_batch = {'b.to(tl.int64)' if sizes.batch_of_keys > 1 else 'b.to(tl.int64) * 0'}"
    yield f"of_head = (h // {shared}).to(tl.int64)"
    yield f"i = tl.program_id(0) * {tile.rows} + tl.arange(0, {tile.rows})[:, None]"
    yield f"d = tl.arange(0, {width})"
    yield f"e = tl.arange(0, {value_width})"
    yield f"query += b.to(tl.int64) * {query[0]} + h.to(tl.int64) * {query[1]}"
    yield (
        f"rows = tl.load(query + i.to(tl.int64) * {query[2]} + d[None, :] * {query[3]}, "
        f"(i < {sizes.rows}) & (d[None, :] < {sizes.width}), 0.0)"
    )
    for name, stride in (("key", flex.strides.key), ("value", flex.strides.value)):
        yield f"{name} += of_batch * {stride[0]} + of_head * {stride[1]}"
    yield f"largest = tl.full([{tile.rows}], float('-inf'), tl.float32)"
    yield f"total = tl.zeros([{tile.rows}], tl.float32)"
    yield f"result = tl.zeros([{tile.rows}, {value_width}], tl.float32)"


def _emit_blocks(
    writer: SourceWriter, flex: Flex, row: tuple[str, str, tuple[int, ...], Strides, tuple[int, ...], Strides], *,
    asks_mask: bool,
) -> None:  # fmt: skip
    """Emit the loop over the blocks of one list."""
    counts, positions, size, stride, position_size, position_stride = row
    sizes, tile, blocks = flex.sizes, flex.tile, flex.blocks
    number = f"tl.minimum(tl.program_id(0) * {tile.rows} // {blocks.rows}, {size[2] - 1})"
    steps = -(-min(blocks.keys, sizes.keys) // tile.columns)
    where = [_at(size, stride, number), _at(position_size, position_stride, number)]
    writer.line(f"count = tl.load({counts} + {where[0]})")
    writer.line(f"for step in range(0, count * {steps}):")
    writer.depth += 2
    block = f"tl.load({positions} + {where[1]} + step // {steps} * {position_stride[3]})"
    writer.line(
        f"j = {block} * {blocks.keys} + step % {steps} * {tile.columns} + tl.arange(0, {tile.columns})[None, :]"
    )
    for line in _step(flex, asks_mask=asks_mask):
        writer.line(line)
    writer.depth -= 2


def _at(size: Sequence[int], stride: Sequence[int], number: str) -> str:
    """Place in a list of blocks: a dimension of one is for all batches or heads."""
    terms = [f"{name} * {step}" for name, extent, step in zip(("b", "h"), size, stride, strict=False) if extent > 1]
    return " + ".join([*terms, f"{number} * {stride[2]}"])


def _step(flex: Flex, *, asks_mask: bool) -> Iterator[str]:
    """One tile of keys: scores, what the functions make of them, and the rows' sums and results so far."""
    sizes, tile = flex.sizes, flex.tile
    key, value = flex.strides.key, flex.strides.value
    yield (
        f"keys = tl.load(key + j.to(tl.int64) * {key[2]} + d[:, None] * {key[3]}, "
        f"(j < {sizes.keys}) & (d[:, None] < {sizes.width}), 0.0)"
    )
    yield f'scores = tl.dot(rows, keys, input_precision="ieee") * {flex.scale!r}'
    yield f"valid = (i < {sizes.rows}) & (j < {sizes.keys})"
    shape = f"[{tile.rows}, {tile.columns}]"
    text, lines = expressions(flex.score, ("scores", "b", "h", "i", "j"), flex.score_buffers, "valid", shape, "s")
    yield from lines
    yield f"scores = tl.broadcast_to(({text}).to(tl.float32), {shape})"
    if asks_mask:
        text, lines = expressions(flex.mask, ("b", "h", "i", "j"), flex.mask_buffers, "valid", shape, "m")
        yield from lines
        yield f"scores = tl.where(tl.broadcast_to({text}, {shape}), scores, float('-inf'))"
    yield f"scores = tl.where(j < {sizes.keys}, scores, float('-inf'))"
    yield "now = tl.maximum(largest, tl.max(scores, 1))"
    # A row that saw no key yet has minus infinity, which must not be subtracted from itself.
    yield "base = tl.where(now == float('-inf'), 0.0, now)"
    yield "weights = tl.exp(scores - base[:, None])"
    yield "rescale = tl.exp(largest - base)"
    yield "total = total * rescale + tl.sum(weights, 1)"
    yield f"k = tl.reshape(j, [{tile.columns}])"
    yield (
        f"values = tl.load(value + k[:, None].to(tl.int64) * {value[2]} + e[None, :] * {value[3]}, "
        f"(k[:, None] < {sizes.keys}) & (e[None, :] < {sizes.value_width}), 0.0)"
    )
    yield "result = result * rescale[:, None]"
    yield 'result = tl.dot(weights.to(values.dtype), values, result, input_precision="ieee")'
    yield "largest = now"


def _end(flex: Flex) -> Iterator[str]:
    sizes, out = flex.sizes, flex.strides.out
    yield "safe = tl.where(total == 0.0, 1.0, total)"
    element = (
        f"b.to(tl.int64) * {out[0]} + h.to(tl.int64) * {out[1]} + i.to(tl.int64) * {out[2]} + e[None, :] * {out[3]}"
    )
    mask = f"(i < {sizes.rows}) & (e[None, :] < {sizes.value_width})"
    yield f"tl.store(out + {element}, (result / safe[:, None]).to(out.dtype.element_ty), {mask})"
    # Torch wants the logarithm to the base 2.
    yield f"logarithm = tl.where(total == 0.0, float('-inf'), (largest + tl.log(safe)) * {1 / math.log(2)!r})"
    yield f"line = tl.program_id(0) * {flex.tile.rows} + tl.arange(0, {flex.tile.rows})"
    yield f"tl.store(sums + tl.program_id(1).to(tl.int64) * {sizes.rows} + line, logarithm, line < {sizes.rows})"
