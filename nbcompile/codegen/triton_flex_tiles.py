"""Parts that all kernels of flex attention have: sizes and lists of blocks, and one tile of scores.

    raw = tl.dot(rows, keys) * 0.125         query and keys
    scores = raw + tl.load(bias + h)         the user's function of it; -inf where the user's mask is false

The functions are ATen graphs of numbers: batch, head, row and key are a number, or a row or column of the tile, so
Triton broadcasts them. The mask is not evaluated for blocks that are listed as full, and blocks that are not listed are
not read. Symbolic batch, rows, keys and strides are arguments: one kernel for all of them.

In torch: torch/_inductor/kernel/flex/common.py. Read next: nbcompile/codegen/triton_flex.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import fx

from nbcompile.codegen.triton_graph import expressions
from nbcompile.codegen.triton_sizes import Size
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.kernel import ProductTile

Strides = tuple[Size, ...]
LEAST_TILE = 16
"""Minimum rows and columns of a tile for matrix units."""
LN_2 = 0.6931471805599453
"""Torch stores logarithms of attention to the base 2."""
NAMES = {"batch": "batch_count", "rows": "row_count", "keys": "key_count"}
"""Names of symbolic sizes in a kernel."""


@dataclass(frozen=True, slots=True)
class FlexSizes:
    """Sizes of an attention; numbers and widths of heads are known."""

    batch: Size
    heads: int
    rows: Size
    keys: Size
    width: int
    value_width: int
    batch_of_keys: Size
    """1 where all batches of the query share keys and values."""
    heads_of_keys: int
    """Fewer than ``heads`` where several heads of the query share one."""
    hints: tuple[int, int, int]
    """Batch, rows and keys for which tiles are chosen: those of the call that the graph is compiled for."""

    @property
    def padded(self) -> tuple[int, int]:
        """Both widths as tiles have them: powers of two, 16 at least."""
        return tuple(max(LEAST_TILE, power_of_two(width)) for width in (self.width, self.value_width))  # type: ignore[return-value]

    @property
    def shared(self) -> int:
        """Heads of the query that share one of the keys."""
        return self.heads // self.heads_of_keys


@dataclass(frozen=True, slots=True)
class BlockList:
    """Blocks to process: of keys for each block of rows, or of rows for each block of keys."""

    counts: str
    positions: str
    """Names of the arguments."""
    counts_size: tuple[Size, ...]
    counts_stride: Strides
    positions_size: tuple[Size, ...]
    positions_stride: Strides

    @property
    def parenthesized(self) -> BlockList:
        """The list with sizes and strides as parts of an expression."""
        names = ("counts_size", "counts_stride", "positions_size", "positions_stride")
        return replace(self, **{name: in_brackets(getattr(self, name)) for name in names})  # type: ignore[arg-type]

    def count(self, number: str) -> str:
        """Position of the number of blocks."""
        return _at(self.counts_size, self.counts_stride, self._limited(number))

    def first(self, number: str) -> str:
        """Offset of the first position."""
        return _at(self.positions_size, self.positions_stride, self._limited(number))

    def _limited(self, number: str) -> str:
        last = self.counts_size[2]
        # An argument has 64 bits, the number of a block 32.
        limit = last - 1 if isinstance(last, int) else f"({last} - 1).to(tl.int32)"
        return f"tl.minimum({number}, {limit})"


def in_brackets(sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Sizes as parts of an expression."""
    return tuple(size if isinstance(size, int) else f"({size})" for size in sizes)


def _at(size: Sequence[Size], stride: Sequence[Size], number: str) -> str:
    """Position in a list of blocks: a dimension of one is for all batches or heads."""
    terms = [f"{name} * {step}" for name, extent, step in zip(("b", "h"), size, stride, strict=False) if extent != 1]
    return " + ".join([*terms, f"{number} * {stride[2]}"])


@dataclass(frozen=True, slots=True)
class BlockMask:
    """The lists of blocks, and the sizes of a block."""

    rows: int
    keys: int
    lists: tuple[BlockList, ...]
    """The blocks whose mask is evaluated, and full ones."""


@dataclass(frozen=True, slots=True)
class Flex:
    """One attention."""

    sizes: FlexSizes
    strides: Mapping[str, Strides]
    """Strides of query, keys, values and results, by the names of the kernel's arguments."""
    blocks: BlockMask
    scale: float
    score: fx.GraphModule
    mask: fx.GraphModule
    score_buffers: tuple[tuple[str, torch.Tensor], ...]
    """Names and (fake) tensors that the functions read."""
    mask_buffers: tuple[tuple[str, torch.Tensor], ...]
    dtype: torch.dtype
    symbols: tuple[str, ...] = ()
    """Names of the symbolic sizes."""

    @property
    def parenthesized(self) -> Flex:
        """The same with the kernel's names of sizes, each of 32 bits as the numbers that are compared with it."""
        named = {name: short for name, short in NAMES.items() if isinstance(getattr(self.sizes, name), str)}
        lists = tuple(blocks.parenthesized for blocks in self.blocks.lists)
        strides = {name: in_brackets(stride) for name, stride in self.strides.items()}
        sizes = replace(self.sizes, **named)  # type: ignore[arg-type]
        return replace(self, sizes=sizes, strides=strides, blocks=replace(self.blocks, lists=lists))

    @property
    def lists_and_buffers(self) -> tuple[str, ...]:
        """Names of the arguments that follow the tensors."""
        listed = [name for blocks in self.blocks.lists for name in (blocks.counts, blocks.positions)]
        return (*listed, *(name for name, _ in (*self.score_buffers, *self.mask_buffers)))


def power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << (number - 1).bit_length()


def begin(name: str, parameters: Sequence[str]) -> SourceWriter:
    """A module with the head of a kernel."""
    writer = SourceWriter()
    for line in ("import triton", "import triton.language as tl", "from triton.language.extra import libdevice", ""):
        writer.line(line)
    writer.line("@triton.jit")
    writer.line(f"def {name}({', '.join(parameters)}):")
    writer.depth += 2
    return writer


def begin_flex(flex: Flex, name: str, parameters: Sequence[str]) -> SourceWriter:
    """A module with the head of a kernel of attention, and its sizes that only a call knows."""
    writer = begin(name, (*parameters, *flex.symbols))
    for size, short in NAMES.items():
        if isinstance(text := getattr(flex.sizes, size), str):
            writer.line(f"{short} = ({text}).to(tl.int32)")
    return writer


def emit_lines(writer: SourceWriter, lines: Iterator[str]) -> None:
    """Emit lines at the same depth."""
    for line in lines:
        writer.line(line)


def offset_text(row: str, column: str, stride: Strides) -> str:
    """Offset of an element from the first one of a matrix."""
    return f"({row}).to(tl.int64) * {stride[2]} + {column} * {stride[3]}"


def tile_load(name: str, row: tuple[str, Size], column: tuple[str, Size], stride: Strides) -> str:
    """The load of a tile of a matrix: 0 beyond its sizes.

    Args:
        name: Name of the pointer to the matrix.
        row: Text of the rows' numbers, as a column or a row of the tile, and their count.
        column: The same for the columns.
        stride: Strides of the tensor.
    """
    mask = f"({row[0]} < {row[1]}) & ({column[0]} < {column[1]})"
    return f"tl.load({name} + {offset_text(row[0], column[0], stride)}, {mask}, 0.0)"


@dataclass(frozen=True, slots=True)
class TileLoop:
    """A loop over the tiles of the blocks that are listed for one block."""

    number: str
    """Text of the number of the block that has the list."""
    size: int
    """Size of a block."""
    most: Size
    """Size of the tensor along the blocks."""
    variable: str
    """Name of the numbers of a tile."""
    tile: str
    """Text of the numbers in a tile that begins with 0: ``tl.arange(0, 64)[None, :]``."""
    bounds: tuple[str, str] = ("0", "")
    """Start of the loop, and an upper bound of its end."""


def emit_steps(writer: SourceWriter, blocks: BlockList, loop: TileLoop) -> None:
    """Emit the head of a loop over the tiles of listed blocks: ``j`` are the numbers of a tile's keys.

    Args:
        writer: The writer; later lines are in the loop.
        blocks: The list.
        loop: The loop.
    """
    #      listed blocks     5           2           7            count 3, each of 128 keys (size)
    #      step              0     1     2     3     4     5      tiles of 64 keys (columns): 2 steps for a block
    columns = int(loop.tile.partition(", ")[2].partition(")")[0])
    # A block may be larger than the tensor: torch's mask for "all" has one that is larger than any.
    steps = steps_of(loop.size, loop.most, columns)
    if isinstance(steps, str):
        writer.line(f"steps = {steps}")
        steps = "steps"
    writer.line(f"count = tl.load({blocks.counts} + {blocks.count(loop.number)}) * {steps}")
    start, limit = loop.bounds
    end = f"tl.minimum(count, {limit})" if limit else "count"
    writer.line(f"for step in range({start}, {end}):")
    writer.depth += 2
    block = (
        f"tl.load({blocks.positions} + {blocks.first(loop.number)} + step // {steps} * {blocks.positions_stride[3]})"
    )
    writer.line(f"{loop.variable} = {block} * {loop.size} + step % {steps} * {columns} + {loop.tile}")


def steps_of(size: int, most: Size, columns: int) -> Size:
    """Tiles of one block."""
    if isinstance(most, int):
        return -(-min(size, most) // columns)
    return f"(tl.minimum({size}, {most}) + {columns - 1}) // {columns}"


def scores(flex: Flex, shape: str, inside: str, valid: str, *, requires_mask: bool) -> Iterator[str]:
    """Scores of a tile, from ``raw`` products: minus infinity where they are masked.

    Args:
        flex: The attention.
        shape: Shape of the tile.
        inside: Condition under which the functions may read their tensors.
        valid: Condition under which a score exists.
        requires_mask: Whether the mask is evaluated, as in blocks that are not full; ``allowed`` is then its value.
    """
    yield f"inside = {inside}"
    text, lines = expressions(flex.score, ("raw", "b", "h", "i", "j"), flex.score_buffers, "inside", shape, "score_")
    yield from lines
    yield f"scores = tl.broadcast_to(({text}).to(tl.float32), {shape})"
    if requires_mask:
        text, lines = expressions(flex.mask, ("b", "h", "i", "j"), flex.mask_buffers, "inside", shape, "mask_")
        yield from lines
        yield f"allowed = tl.broadcast_to({text}, {shape})"
        yield "scores = tl.where(allowed, scores, float('-inf'))"
    yield f"scores = tl.where({valid}, scores, float('-inf'))"


def tile_of(flex: Flex, rows: int) -> ProductTile:
    """Rows and keys of a program's tile; few rows (decoding) have a flat one."""
    wide = max(flex.sizes.padded) > 64 or flex.dtype == torch.float32
    tall = LEAST_TILE if rows <= LEAST_TILE else 32 if wide and flex.dtype == torch.float32 else 64
    # One stage: with two, the simulator reports a result that is read while matrix units still write it.
    return ProductTile(tall, 32 if wide else 64, max(flex.sizes.padded), 4, 1)
