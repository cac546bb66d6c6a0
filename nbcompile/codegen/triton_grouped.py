"""Triton kernels of grouped matrix products: groups of rows, of columns or of steps of the sum, found on the device.

    grouped_mm(x, w, offsets=[10, 10, 33])      rows 0 to 9 of x by w[0], none by w[1], rows 10 to 32 by w[2]
    ->  for group in range(0, 3):               which group has this program's tile
            end = tl.load(offsets + group)
            tiles = (end - begin + 63) // 64
            ...
        for step in range(0, 512, 32):          the product, as of any two matrices

The number of a group's tiles is known only on the device: there are programs for one more tile per group than all rows
have, and programs without a tile do nothing. A symbolic size is an argument:

    row_count = (s0).to(tl.int32)               one kernel for all numbers of rows

In torch: torch/_inductor/kernel/mm_grouped.py. Read next: nbcompile/gpu/grouped_products.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nbcompile.codegen.triton_flex_tiles import begin, emit_lines
from nbcompile.codegen.triton_sizes import Size, added, multiplied, quotient, wide
from nbcompile.ir.kernel import ProductTile

PARAMETERS = ("left", "right", "offsets", "out")
ROWS, COLUMNS, SUM = "rows", "columns", "sum"
"""Dimensions that may be divided into groups."""


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """Sizes and strides of a product, one of whose dimensions is divided into groups."""

    divided: str
    groups: Size
    rows: Size
    columns: Size
    depth: Size
    left: tuple[Size, Size, Size]
    """Strides over groups (0 where there is none), rows and steps of the sum."""
    right: tuple[Size, Size, Size]
    out: tuple[Size, Size, Size]
    hints: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Groups, rows, columns and depth for which a tile is chosen: those of the call that the graph is compiled for."""
    symbols: tuple[str, ...] = ()
    """Names of the symbolic sizes."""

    @property
    def parenthesized(self) -> GroupedProduct:
        """The product with the kernel's names of sizes, each of 32 bits as the numbers that are compared with it."""
        named = {name: short for name, short in NAMES.items() if isinstance(getattr(self, name), str)}
        return replace(self, **named)  # type: ignore[arg-type]

    def tiles(self, tile: ProductTile) -> tuple[Size, Size]:
        """Number of tiles along rows and columns: an upper bound for a divided dimension."""
        # Every group may leave one tile partly empty, so that at most one tile is added for each.
        down, across = quotient(self.rows, tile.rows), quotient(self.columns, tile.columns)
        return (
            added(down, self.groups) if self.divided == ROWS else down,
            added(across, self.groups) if self.divided == COLUMNS else across,
        )

    def programs(self, tile: ProductTile) -> Size:
        """Number of programs."""
        down, across = self.tiles(tile)
        return multiplied(multiplied(down, across), self.groups if self.divided == SUM else 1)


NAMES = {"groups": "group_count", "rows": "row_count", "columns": "column_count", "depth": "step_count"}
"""Names of symbolic sizes in a kernel."""


def emit(
    product: GroupedProduct, tile: ProductTile, name: str, operands: Sequence[str] = (), after: Sequence[str] = ()
) -> str:
    """The module's text: a function that ``triton.jit`` takes.

    Args:
        product: The product.
        tile: The tile of a program.
        name: Name of the function.
        operands: Names of further parameters.
        after: Lines that compute the result from ``total``.
    """
    writer = begin(name, (*PARAMETERS, *operands, *product.symbols))
    for size, short in NAMES.items():
        if isinstance(text := getattr(product, size), str):
            writer.line(f"{short} = ({text}).to(tl.int32)")
    product = product.parenthesized
    down, across = product.tiles(tile)
    writer.line(f"row_tile = tl.program_id(0) % ({down})")
    writer.line(f"column_tile = tl.program_id(0) // ({down}) % ({across})")
    if product.divided == SUM:
        emit_lines(writer, _steps_of_group(product, tile, multiplied(down, across)))
    else:
        emit_lines(writer, _tile_of_group(product, tile))
        writer.line(f"if group < {product.groups}:")
        writer.depth += 2
        emit_lines(writer, _edges(product, tile))
    emit_lines(writer, _sum(product, tile))
    emit_lines(writer, iter(after))
    out = product.out
    element = f"row.to(tl.int64) * ({out[1]}) + {wide('column', product.columns, out[2])} * ({out[2]})"
    writer.line(f"out += group.to(tl.int64) * ({out[0]})")
    writer.line(f"tl.store(out + ({element}), total.to(out.dtype.element_ty), is_row & is_column)")
    return writer.text()


def _tile_of_group(product: GroupedProduct, tile: ProductTile) -> Iterator[str]:
    """The group of a program's tile, where the tile begins, and where the group ends."""
    block, number = (tile.rows, "row_tile") if product.divided == ROWS else (tile.columns, "column_tile")
    # Each program iterates over the offsets until the tiles of the groups before it add up to its own number:
    #     offsets 10, 10, 33; tiles of 16 rows      tile 0: rows 0 to 9 of group 0
    #     group 1 has no rows, and no tile          tile 1: rows 10 to 25 of group 2; tile 2: rows 26 to 32
    # A program without a tile has the number of groups as its group, and does nothing.
    yield "before = 0"
    yield "taken = 0"
    yield f"group = {product.groups}"
    yield "first = 0"
    yield "last = 0"
    yield f"for at in range(0, {product.groups}):"
    yield from _limit("  end", "offsets + at", product.rows if product.divided == ROWS else product.columns)
    yield f"  tiles = (tl.maximum(end - before, 0) + {block - 1}) // {block}"
    yield f"  is_here = ({number} >= taken) & ({number} < taken + tiles)"
    yield "  group = tl.where(is_here, at, group)"
    yield f"  first = tl.where(is_here, before + ({number} - taken) * {block}, first)"
    yield "  last = tl.where(is_here, end, last)"
    yield "  taken += tiles"
    yield "  before = end"


def _edges(product: GroupedProduct, tile: ProductTile) -> Iterator[str]:
    """Rows and columns of a tile whose group has its rows or its columns."""
    of_rows = product.divided == ROWS
    yield f"row = ({'first' if of_rows else f'row_tile * {tile.rows}'} + tl.arange(0, {tile.rows}))[:, None]"
    column = f"column_tile * {tile.columns}" if of_rows else "first"
    yield f"column = ({column} + tl.arange(0, {tile.columns}))[None, :]"
    yield f"is_row = row < {'last' if of_rows else product.rows}"
    yield f"is_column = column < {product.columns if of_rows else 'last'}"
    yield "begin = 0"
    yield f"end_of_sum = {product.depth}"


def _steps_of_group(product: GroupedProduct, tile: ProductTile, tiles: Size) -> Iterator[str]:
    """Rows and columns of a tile whose group has a part of the sum."""
    yield f"group = tl.program_id(0) // ({tiles})"
    yield f"row = (row_tile * {tile.rows} + tl.arange(0, {tile.rows}))[:, None]"
    yield f"column = (column_tile * {tile.columns} + tl.arange(0, {tile.columns}))[None, :]"
    yield f"is_row = row < {product.rows}"
    yield f"is_column = column < {product.columns}"
    yield from _limit("begin", "offsets + group - 1, group > 0, 0", product.depth)
    yield from _limit("end_of_sum", "offsets + group", product.depth)


def _limit(name: str, address: str, size: Size) -> Iterator[str]:
    """An offset as in a slice: a negative one counts from the end, and all are clamped to the dimension."""
    value = name.strip()
    yield f"{name} = tl.load({address}).to(tl.int32)"
    yield f"{name} = tl.minimum(tl.maximum(tl.where({value} < 0, {value} + {size}, {value}), 0), {size})"


def _sum(product: GroupedProduct, tile: ProductTile) -> Iterator[str]:
    left, right = product.left, product.right
    yield f"left += group.to(tl.int64) * ({left[0]})"
    yield f"right += group.to(tl.int64) * ({right[0]})"
    yield f"total = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)"
    yield f"for step in range(begin, end_of_sum, {tile.depth}):"
    yield f"  r = step + tl.arange(0, {tile.depth})"
    yield (
        f"  rows = tl.load(left + (row.to(tl.int64) * ({left[1]}) + "
        f"{wide('r[None, :]', product.depth, left[2])} * ({left[2]})), "
        "is_row & (r[None, :] < end_of_sum), 0.0)"
    )
    yield (
        f"  columns = tl.load(right + (r[:, None].to(tl.int64) * ({right[1]}) + "
        f"{wide('column', product.columns, right[2])} * ({right[2]})), "
        "(r[:, None] < end_of_sum) & is_column, 0.0)"
    )
    yield "  total = tl.dot(rows, columns, total)"
