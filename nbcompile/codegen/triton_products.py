"""Triton kernels of matrix products: a tile of the result for each program, with prologue and epilogue in registers.

    for i0, i1:  for r0: buf0 = dot(buf0, x[..] * w[..]);  buf1[..] = max(buf0 + bias[i1], 0.0)
    ->  buf0_acc = tl.full([64, 64], 0, tl.float32)
        for begin in range(0, 512, 32):
            r0 = begin + tl.arange(0, 32)[None, :]
            x1 = tl.load(p0 + (512*i0 + r0))                                  64 x 32
            r0 = begin + tl.arange(0, 32)[:, None]
            x2 = tl.load(p1 + (i1 + 256*r0))                                  32 x 64
            buf0_acc = tl.dot(x1, x2, buf0_acc, input_precision="ieee")
        tl.store(p3 + (256*i0 + i1), nan_maximum(buf0_acc + ..., 0.0))

Operands (the prologue) and users (the epilogue) are statements of the IR, emitted as in all kernels: this module emits
only the tile, its masks and the loop.

In torch: torch/_inductor/kernel/mm.py and templates/triton_mm.py.jinja, a text with holes. Read next:
nbcompile/gpu/templates.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbcompile.codegen import triton_descriptors
from nbcompile.codegen.printers import python_index
from nbcompile.codegen.triton_blocks import end_block, length, per_thread, split
from nbcompile.codegen.triton_descriptors import Descriptor
from nbcompile.codegen.triton_loads import load_early
from nbcompile.codegen.triton_values import NoTriton, TritonEmitter, assign, emit_statement, index_text, value_text
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Apply, Expr, Load
from nbcompile.ir.index import Symbol
from nbcompile.ir.kernel import Accumulate, Kernel, Loop, Nest, ProductTile
from nbcompile.ir.traversal import walk

DEFAULT_TILE = ProductTile(32, 32, 32, 4, 3)
NARROW = (torch.bfloat16, torch.float16)
"""Types whose products are exact in float32, the accumulator type of matrix units."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product: its factors, and the loops of each side of the result."""

    part: Accumulate
    left: Expr
    right: Expr
    batch: tuple[Loop, ...]
    rows: tuple[Loop, ...]
    columns: Loop
    depth: Loop


def product_of(kernel: Kernel) -> Product:
    """Find the factors and sides of a kernel's product.

    Raises:
        NoTriton: it has another form, as where a factor is a constant.
    """
    part = kernel.product
    (nest,) = (statement for statement in kernel.body if isinstance(statement, Nest))
    if part is None or not isinstance(part.value, Apply) or part.value.op != "mul" or len(kernel.loops) < 2:
        raise NoTriton("a matrix multiplication that has been simplified")
    left, right = part.value.args
    if left.dtype != torch.float32 or right.dtype != torch.float32 or len(nest.loops) != 1:
        raise NoTriton("a matrix multiplication in this type")
    (depth,) = nest.loops
    batch, rows, columns = _sides(kernel.loops, left, right)
    return Product(part, *_narrowed(left, right), batch, rows, columns, depth)


def _sides(loops: Sequence[Loop], left: Expr, right: Expr) -> tuple[tuple[Loop, ...], tuple[Loop, ...], Loop]:
    """The loops over products, rows and columns: both factors, the left one and the right one depend on them."""
    #     out[i0, i1, i2] = sum of x[i0, i1, r0] * w[i0, r0, i2]
    #     i0    in both factors      batch
    #     i1    in the left one      rows; several loops of rows are one, split again for addresses
    #     i2    the last loop        columns
    used, (*others, columns) = _variables(right), loops
    batch = tuple(loop for loop in others if loop.variable in used)
    rows = tuple(loop for loop in others if loop not in batch)
    if not rows or columns.variable in _variables(left):
        raise NoTriton("a matrix multiplication without rows and columns of its own")
    return batch, rows, columns


def _variables(body: Expr) -> frozenset[Symbol]:
    found: set[Symbol] = set()
    for node in walk(body):
        index = getattr(node, "index", ())
        for position in index if isinstance(index, tuple) else (index,):
            found |= position.free_symbols
    return frozenset(found)


def _narrowed(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """The factors without their casts from a common narrow type, if there is one: the products are the same."""
    # The IR multiplies 16-bit factors as float32; matrix units read 16-bit types.
    inner = [factor.args[0] for factor in (left, right) if isinstance(factor, Apply) and factor.op == "cast"]
    if len(inner) == 2 and inner[0].dtype == inner[1].dtype and inner[0].dtype in NARROW:
        return inner[0], inner[1]
    return left, right


def emit_product(emitter: TritonEmitter) -> str:
    """Emit a kernel with a program for each tile of the result, or a persistent one; return the number of programs."""
    kernel, writer = emitter.kernel, emitter.writer
    product, tile = product_of(kernel), kernel.tile or DEFAULT_TILE
    emitter.warps, emitter.stages = tile.warps, tile.stages
    sides = [indexing.product([loop.size for loop in product.rows]), product.columns.size]
    counts = [_blocks(size, block) for size, block in zip(sides, (tile.rows, tile.columns), strict=True)]
    of_batch = index_text(indexing.product([loop.size for loop in product.batch]))
    tiles = f"({of_batch}) * {counts[0]} * {counts[1]}" if product.batch else f"{counts[0]} * {counts[1]}"
    descriptors = _descriptors(emitter, product, tile)
    if tile.programs:
        writer.line(f"for tile in range({emitter.program}, {tiles}, {tile.programs}):")
        writer.depth += 2
    writer.line(f"program = {'tile' if tile.programs else emitter.program}{emitter.int64_cast}")
    if product.batch:
        writer.line(f"batch = program // ({counts[0]} * {counts[1]})")
        split(writer, "batch", product.batch)
        writer.line(f"program = program % ({counts[0]} * {counts[1]})")
    _tile_position(emitter, counts, tile)
    column = product.columns.variable.name
    writer.line(f"row = row_block * {tile.rows} + tl.arange(0, {tile.rows})[:, None]")
    split(writer, "row", product.rows)
    writer.line(f"{column} = column_block * {tile.columns} + tl.arange(0, {tile.columns})[None, :]")
    masks = [
        _mask(name, size, block)
        for name, size, block in zip(("row", column), sides, (tile.rows, tile.columns), strict=True)
    ]
    _emit_loop(emitter, product, tile, masks, descriptors)
    axes = [
        (frozenset(loop.variable for loop in product.rows), masks[0]),
        (frozenset({product.columns.variable}), masks[1]),
    ]
    _begin_tile(emitter, axes, f"(row + {column})")
    epilogue = [statement for statement in kernel.body if not isinstance(statement, Nest)]
    load_early(emitter, epilogue, per_thread(emitter, tile.rows * tile.columns))
    for statement in epilogue:
        emit_statement(emitter, statement)
    end_block(emitter)
    if not tile.programs:
        return tiles
    writer.depth -= 2
    emitter.trip_counts[-1] = f"({emitter.trip_counts[-1]}) * (({tiles} + {tile.programs - 1}) // {tile.programs})"
    return f"min({tile.programs}, {tiles})"


def _descriptors(emitter: TritonEmitter, product: Product, tile: ProductTile) -> list[Descriptor]:
    """Emit the descriptors of both factors, if the tile has any."""
    if not tile.descriptors:
        return []
    found = triton_descriptors.describe_factors(
        emitter.kernel, (product.left, product.right), product.batch, product.rows, product.columns, product.depth
    )
    if found is None:
        raise NoTriton("a factor that no tensor descriptor describes")
    shapes = (tile.rows, tile.depth), (tile.depth, tile.columns)
    return [triton_descriptors.make(emitter, factor, shape) for factor, shape in zip(found, shapes, strict=True)]


def _blocks(size: indexing.Index, block: int) -> int | str:
    known = length(size)
    return -(-known // block) if isinstance(known, int) else f"(({known} + {block - 1}) // {block})"


def _mask(name: str, size: indexing.Index, block: int) -> str:
    known = length(size)
    return "" if isinstance(known, int) and known % block == 0 else f"({name} < {known})"


def _tile_position(emitter: TritonEmitter, counts: Sequence[int | str], tile: ProductTile) -> None:
    """Emit the position of a program's tile: programs that run at the same time share cached rows and columns."""
    writer, (down, across) = emitter.writer, counts
    if isinstance(down, int) and down <= tile.group:
        writer.line(f"row_block = program % {max(down, 1)}")
        writer.line(f"column_block = program // {max(down, 1)}")
        return
    #     group 2, 4 x 3 tiles; numbers are programs:
    #           0  2  4        0 and 1 share columns of the right factor, 0 and 2 rows of the left
    #           1  3  5        in row order, 0 1 2 / 3 4 5 / ..., programs that run at once would
    #           6  8 10        share only rows
    #           7  9 11
    writer.line(f"first = program // ({tile.group} * {across}) * {tile.group}")
    writer.line(f"height = tl.minimum({down} - first, {tile.group})")
    writer.line(f"row_block = first + program % ({tile.group} * {across}) % height")
    writer.line(f"column_block = program % ({tile.group} * {across}) // height")


def _begin_tile(emitter: TritonEmitter, axes: Sequence[tuple[frozenset[Symbol], str]], block: str) -> None:
    """Begin a block of two dimensions, with a mask along each."""
    masks = [mask for _, mask in axes if mask]
    emitter.mask = f"({' & '.join(masks)})" if masks else ""
    emitter.block_mask, emitter.axes = emitter.mask, tuple(axes)
    emitter.block, emitter.is_tile = block, True
    emitter.block_variables = frozenset().union(*(variables for variables, _ in axes))


def _emit_loop(
    emitter: TritonEmitter, product: Product, tile: ProductTile, masks: Sequence[str], descriptors: Sequence[Descriptor]
) -> None:
    """Emit the loop over K: some steps of both factors, and their product."""
    part, writer = product.part, emitter.writer
    emitter.origin = emitter.origins.get(part.name, ())
    total, depth = f"{part.name}_acc", product.depth
    size = length(depth.size)
    emitter.line(f"{total} = tl.full([{tile.rows}, {tile.columns}], 0, tl.float32)")
    emitter.trip_counts.append(f"({python_index(depth.size)} + {tile.depth - 1}) // {tile.depth}")
    writer.line(f"for begin in range(0, {size}, {tile.depth}):")
    writer.depth += 2
    before = emitter.loaded
    left, right = (
        _described_factors(emitter, product, tile, descriptors)
        if descriptors
        else _factors(emitter, product, tile, masks)
    )
    precision = "tf32" if part.kind == "dot_tf32" else "ieee"
    emitter.origin = emitter.origins.get(part.name, ())
    emitter.line(f'{total} = tl.dot({left}, {right}, {total}, input_precision="{precision}")')
    emitter.loaded = before
    writer.depth -= 2
    emitter.locals[part.name] = total


def _described_factors(
    emitter: TritonEmitter, product: Product, tile: ProductTile, descriptors: Sequence[Descriptor]
) -> tuple[str, str]:
    """Emit the loads of both factors' tiles by descriptors, whose coordinates have 32 bits."""
    cast = ".to(tl.int32)" if emitter.int64_cast else ""
    step = "begin" if isinstance(length(product.depth.size), int) else "begin.to(tl.int32)"
    row, column = f"(row_block * {tile.rows}){cast}", f"(column_block * {tile.columns}){cast}"
    batch = [f"batch{cast}"] if product.batch else []
    (left, right), shape = descriptors, (tile.rows, tile.depth)
    return (
        triton_descriptors.load(emitter, left, batch, (row, step), shape),
        triton_descriptors.load(emitter, right, batch, (step, column), (tile.depth, tile.columns)),
    )


def _factors(emitter: TritonEmitter, product: Product, tile: ProductTile, masks: Sequence[str]) -> tuple[str, str]:
    """Emit the loads of both factors' tiles, and the prologue."""
    writer, depth = emitter.writer, product.depth
    along, column = _mask(depth.variable.name, depth.size, tile.depth), product.columns
    rows = frozenset(loop.variable for loop in product.rows)
    steps = f"begin + tl.arange(0, {tile.depth})"
    writer.line(f"{depth.variable.name} = ({steps})[None, :]{emitter.int64_cast}")
    _begin_tile(emitter, [(rows, masks[0]), (frozenset({depth.variable}), along)], f"(row + {depth.variable.name})")
    # The left factor has the depth along its columns, the right one along its rows: r0 is defined twice.
    left = _factor(emitter, product.left, along, (tile.rows, tile.depth))
    writer.line(f"{depth.variable.name} = ({steps})[:, None]{emitter.int64_cast}")
    block = f"({depth.variable.name} + {column.variable.name})"
    _begin_tile(emitter, [(frozenset({depth.variable}), along), (frozenset({column.variable}), masks[1])], block)
    return left, _factor(emitter, product.right, along, (tile.depth, tile.columns))


def _factor(emitter: TritonEmitter, factor: Expr, along: str, shape: tuple[int, int]) -> str:
    """Emit a factor's tile; beyond the end of the sum it is 0."""
    emitter.loaded = {}  # the variable of the sum has another shape than for the other factor
    text = value_text(emitter, factor)
    narrow = factor.args[0] if isinstance(factor, Apply) and factor.op == "cast" else factor
    # A masked load returns 0, but a value computed from it need not be 0: exp(0) is 1.
    if along and not isinstance(narrow, Load):
        text = f"tl.where({along}, {text}, 0.0)"
    sides = [variables for variables, _ in emitter.axes]
    # tl.dot needs whole tiles. A factor that does not depend on both sides, such as a vector, has
    # the shape of one row or column.
    full = any(isinstance(node, Load) and all(side & _variables(node) for side in sides) for node in walk(factor))
    # It needs a new name, as the variable of the sum changes before the product.
    return assign(emitter, text if full else f"tl.broadcast_to({text}, [{shape[0]}, {shape[1]}])", "f")
