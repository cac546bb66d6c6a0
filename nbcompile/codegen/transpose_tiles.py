"""Transpose tiles: loops whose accesses are contiguous along different variables, W x W elements at a time.

    for i0 < 64, i1 < 56:  y[56*i0 + i1] = x[i0 + 64*i1]        each of W lanes of x is in its own cache line
    ->  f32 tile1[W*W];
        load_tile_transposed<f32, W>(tile1, in0 + i0_first + 64*i1, 64, lanes, rows);      whole lines of x
        for (i64 row = 0; row < count_of<W>(rows); row++) { ... load<f32, W>(tile1 + row*W, lanes) ... }

A tile is loaded along its contiguous side and transposed in registers (nbvec.h, transpose_in_registers):

        lanes ->                         lanes ->
    rows  x00 x10 x20 x30          rows  x00 x01 x02 x03
     |    x01 x11 x21 x31   ->      |    x10 x11 x12 x13
     v    ...                       v    ...

In torch: torch/_inductor/codegen/cpp.py (CppTile2DKernel). Read next:
nbcompile/codegen/column_reduction.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbcompile.codegen.emitter import KernelEmitter, is_large, outer_loops, scope_of
from nbcompile.codegen.kernel_analysis import stored_buffers, unconditional_loads, vectorises_outer_loop
from nbcompile.codegen.machine_model import (
    ALIGNED_SIZE,
    BLOCK_TILES,
    LONG_BLOCK_TILES,
    MIN_TILED_ITERATIONS,
    TRANSPOSE_COST,
)
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import OPERATIONS, Apply, Expr, IndexOf, Load, Local
from nbcompile.ir.index import ONE, ZERO, Index, Symbol
from nbcompile.ir.kernel import Kernel, Let, Loop, Store
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import children, loads, walk


@dataclass(frozen=True, slots=True)
class TransposeTile:
    """Tile of a kernel: the loop that runs over its rows, and the accesses that are transposed."""

    rows: Loop
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def choose_vector_loop(kernel: Kernel) -> Kernel:
    """Choose the vectorised side of a kernel's tiles: the cheaper one.

    A value that depends only on the row (the scale of a channel, its root) is computed for each row of each tile; one
    that depends only on the lanes, once per tile. If the sides are swapped, the other accesses are transposed.
    """
    tile = find_transpose_tile(kernel) if vectorises_outer_loop(kernel) else None
    if tile is None:
        return kernel
    rows, last = tile.rows, kernel.loops[-1]
    loops = tuple({rows: last, last: rows}.get(loop, loop) for loop in kernel.loops)
    swapped = replace(kernel, loops=loops, vector_variable=rows.variable)
    swapped_tile = _transposed_accesses(
        swapped, [statement for statement in swapped.body if isinstance(statement, (Let, Store))], last, rows.variable
    )
    return swapped if _cost(swapped, swapped_tile) < _cost(kernel, tile) else kernel


def _cost(kernel: Kernel, tile: TransposeTile) -> tuple[int, int]:
    """Cost of an order: number of gathers and scatters, then the extra work per row of a tile."""
    rows, lanes = tile.rows.variable, kernel.loops[-1].variable
    dependences = _dependences(kernel)
    offsets = [node.index[0] for node in dependences if isinstance(node, Load) and node not in tile.loads]
    offsets += [
        statement.offset for statement in kernel.body if isinstance(statement, Store) and statement not in tile.stores
    ]
    row_only = [node for node, variables in dependences.items() if rows in variables and lanes not in variables]
    # A tuple: any gather or scatter, which is W accesses, costs more than all extra work in registers.
    return (
        sum(stride_along(offset, lanes) not in (ZERO, ONE) for offset in offsets),
        TRANSPOSE_COST * (len(tile.loads) + len(tile.stores))
        + sum(OPERATIONS[node.op].cost if isinstance(node, Apply) else isinstance(node, Load) for node in row_only),
    )


def _dependences(kernel: Kernel) -> dict[Expr, frozenset[Symbol]]:
    """Map each value of a pointwise kernel to the loop variables that it depends on."""
    found: dict[Expr, frozenset[Symbol]] = {}
    named: dict[str, frozenset[Symbol]] = {}
    for statement in kernel.body:
        assert isinstance(statement, (Let, Store))
        # Children before their parents, so that each union is over finished sets.
        for node in reversed(list(walk(statement.value))):
            match node:
                case Load(index=offsets):
                    own = frozenset[Symbol]().union(*(offset.free_symbols for offset in offsets))
                case IndexOf(index=offset):
                    own = frozenset(offset.free_symbols)
                case Local(name):
                    own = named.get(name, frozenset())
                case _:
                    own = frozenset()
            found[node] = own.union(*(found[part] for part in children(node)))
        if isinstance(statement, Let):
            named[statement.name] = found[statement.value]
    return found


def find_transpose_tile(kernel: Kernel) -> TransposeTile | None:
    """Choose the tile of a pointwise kernel: the loop along which most buffers are contiguous, or None."""
    body = [statement for statement in kernel.body if isinstance(statement, (Let, Store))]
    # A nest or an update between the loads and the stores forbids a tile.
    if len(kernel.loops) < 2 or len(body) < len(kernel.body):
        return None
    *others, last = kernel.loops
    found = [
        _transposed_accesses(kernel, body, loop, last.variable) for loop in others if _is_long(loop) and _is_long(last)
    ]
    return max(
        (tile for tile in found if tile.loads or tile.stores),
        key=lambda tile: len(tile.loads) + len(tile.stores),
        default=None,
    )


def _is_long(loop: Loop) -> bool:
    count = indexing.constant(loop.size)
    return count is None or count >= MIN_TILED_ITERATIONS


def _transposed_accesses(kernel: Kernel, body: Sequence[Let | Store], rows: Loop, lanes: Symbol) -> TransposeTile:
    """Accesses that are contiguous along the rows. A tile's loads all precede its stores, so they must not alias."""

    def is_transposed(offset: Index) -> bool:
        # With stride 0 along the lanes all load one element; with stride 1 the access is contiguous without a tile.
        return stride_along(offset, rows.variable) == ONE and stride_along(offset, lanes) not in (None, ZERO, ONE)

    stores = [statement for statement in body if isinstance(statement, Store)]
    times = Counter(store.buffer for store in stores)
    loads = dict.fromkeys(load for statement in body for load in unconditional_loads(statement.value))
    return TransposeTile(
        rows,
        tuple(load for load in loads if not load.gathers and load.buffer not in times and is_transposed(load.index[0])),
        tuple(
            store
            for store in stores
            # One array for each buffer.
            if store.buffer not in kernel.reads and times[store.buffer] == 1 and is_transposed(store.offset)
        ),
    )


def emit_transpose_tiles(emitter: KernelEmitter, tile: TransposeTile) -> None:
    """Emit blocks of tiles: a cache line that a tile uses in part is still in L1 for the next one."""
    kernel, writer = emitter.kernel, emitter.writer
    # The loop nest of a block, where the inner of the two loops follows the loads:
    #     for i0_block, i1_block (shared by threads):
    #       for one of i0_first, i1 in steps of W:  for the other in steps of W:  tile(...)
    others, last = [loop for loop in kernel.loops[:-1] if loop != tile.rows], kernel.loops[-1]
    row, lane = tile.rows.variable.name, last.variable.name
    ends = {f"{row}_first": c_index(tile.rows.size), lane: c_index(last.size)}
    # The inner loop follows the loads, and is the long one, so that the hardware prefetcher streams them.
    loop_order = list(reversed(ends) if _loads_along_rows(kernel, tile) else ends)
    sides = dict(zip(loop_order, (BLOCK_TILES, LONG_BLOCK_TILES), strict=True))
    blocks = [
        f"for (i64 {at}_block = 0; {at}_block < {end}; {at}_block += {sides[at]}*W) {{" for at, end in ends.items()
    ]
    with outer_loops(emitter, others, *blocks):
        parameters = ", ".join(("auto lanes", "auto rows", *(f"i64 {at}" for at in ends)))
        with writer.block(f"const auto tile = [&]({parameters}) STEP {{", "};"):
            _tile_body(emitter, tile, last.variable)
        for at in loop_order:
            end = f"min_of({at}_block + {sides[at]}*W, {ends[at]})"
            writer.line(f"for (i64 {at} = {at}_block; {at} < {end}; {at} += W)")
            writer.depth += 1
        positions = ", ".join(ends)
        # Only whole tiles: no masks, and no second instance of the lambda.
        if all((indexing.constant(loop.size) or 1) % ALIGNED_SIZE == 0 for loop in (tile.rows, last)):
            writer.line(f"tile(All{{}}, All{{}}, {positions});")
        else:
            whole = " && ".join(f"{at} + W <= {end}" for at, end in ends.items())
            remainder = ", ".join(f"First{{{end} - {at}}}" for at, end in reversed(ends.items()))
            writer.line(f"if ({whole}) tile(All{{}}, All{{}}, {positions});")
            writer.line(f"else tile({remainder}, {positions});")
        writer.depth -= len(loop_order)


def _loads_along_rows(kernel: Kernel, tile: TransposeTile) -> bool:
    """Return whether most loads are transposed."""
    lanes = kernel.loops[-1].variable
    body = [statement.value for statement in kernel.body if isinstance(statement, (Let, Store))]
    both = {
        load for value in body for load in loads(value) if {tile.rows.variable, lanes} <= load.index[0].free_symbols
    }
    return 2 * len(tile.loads) > len(both)


def _tile_body(emitter: KernelEmitter, tile: TransposeTile, lanes: Symbol) -> None:
    kernel, writer, row = emitter.kernel, emitter.writer, tile.rows.variable
    # Three steps. W x W elements of each transposed load are loaded along the rows, and transposed into a small array;
    # the statements run row by row, with vectors along the lanes; results of transposed stores are collected in arrays,
    # too, which are transposed and stored at the end.
    transposed: dict[Load, str] = {}
    for load in tile.loads:
        name = _declare_tile(emitter, load.buffer, C_TYPES[load.dtype])
        transposed[load] = f"{name} + row*W"
        address = _address(emitter, load.buffer, load.index[0], tile, lanes)
        origin = emitter.origins.get(load.buffer, ())
        writer.line(f"load_tile_transposed<{C_TYPES[load.dtype]}, W>({name}, {address}, lanes, rows);", origin)
    buffers = {}
    for store in tile.stores:
        buffers[store] = _declare_tile(emitter, store.buffer, C_TYPES[store.value.dtype])
        emitter.transposed_stores[store.buffer] = f"{buffers[store]} + row*W"
    with writer.block("for (i64 row = 0; row < count_of<W>(rows); row++) {"):
        writer.line(f"const i64 {row.name} = {row.name}_first + row;")
        scope = scope_of(emitter, lanes, stored=stored_buffers(kernel.body), transposed_loads=transposed)
        for statement in kernel.body:
            assert isinstance(statement, (Let, Store))
            emit_statement(emitter, scope, statement)
    for store, name in buffers.items():
        address = _address(emitter, store.buffer, store.offset, tile, lanes)
        arguments = f"{is_large(emitter, store.buffer)}, {name}, {address}, lanes, rows"
        text = f"store_tile_transposed<{C_TYPES[store.value.dtype]}, W>({arguments});"
        writer.line(text, emitter.origins.get(store.buffer, ()))


def _declare_tile(emitter: KernelEmitter, buffer: str, element: str) -> str:
    name = emitter.names.fresh("tile")
    emitter.writer.line(f"alignas(64) {element} {name}[W*W];", emitter.origins.get(buffer, ()))
    return name


def _address(emitter: KernelEmitter, buffer: str, offset: Index, tile: TransposeTile, lanes: Symbol) -> str:
    """Address of a tile's first element, and the stride of its lanes, as C++ arguments."""
    row = tile.rows.variable
    begin = c_index(offset, {row: f"{row.name}_first"})
    step = stride_along(offset, lanes)
    assert step is not None
    begin = f"({begin})" if " - " in begin else begin
    return f"{emitter.names.pointers[buffer]} + {begin}, {c_index(step)}"
