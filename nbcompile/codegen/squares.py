"""Loops over a tensor and one that lies across it: W by W elements at a time, turned over in registers.

    for i0 < 64, i1 < 56:  y[56*i0 + i1] = x[i0 + 64*i1]        each of W lanes of x is in a cache line of its own
    ->  f32 square1[W*W];
        load_turned<f32, W>(square1, in0 + i0_first + 64*i1, 64, lanes, rows);      whole lines of x
        for (i64 row = 0; row < count_of<W>(rows); row++) { ... load<f32, W>(square1 + row*W, lanes) ... }

In torch: torch/_inductor/codegen/cpp.py (CppTile2DKernel). Read next:
nbcompile/codegen/columns.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbcompile.codegen.emitter import KernelEmitter, outer_loops, scope_of
from nbcompile.codegen.facts import STREAMED_BYTES, stored
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.values import ALIGNED_SIZE
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Expr, Load, Masked, children
from nbcompile.ir.index import ONE, ZERO, Index, Symbol, stride_along
from nbcompile.ir.kernel import Kernel, Let, Loop, Store

FEW = 8
"""With fewer iterations of a loop most of a square would be empty."""
SIDE = 4
"""How many squares a block is long, and wide."""


@dataclass(frozen=True, slots=True)
class Square:
    """The loop that makes the rows of squares, and what is turned."""

    rows: Loop
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def square_of(kernel: Kernel) -> Square | None:
    """How a pointwise kernel gains from squares: what is adjacent along another loop than the lanes'."""
    body = [statement for statement in kernel.body if isinstance(statement, (Let, Store))]
    if len(kernel.loops) < 2 or len(body) < len(kernel.body):
        return None
    *others, last = kernel.loops
    found = [_across(kernel, body, loop, last.variable) for loop in others if _is_long(loop) and _is_long(last)]
    return max(
        (each for each in found if each.loads or each.stores),
        key=lambda each: len(each.loads) + len(each.stores),
        default=None,
    )


def _is_long(loop: Loop) -> bool:
    count = indexing.constant(loop.size)
    return count is None or count >= FEW


def _across(kernel: Kernel, body: Sequence[Let | Store], rows: Loop, lanes: Symbol) -> Square:
    """What is adjacent along the rows. Loads are made ahead of all stores of a square, so they must not meet."""

    def is_turned(offset: Index) -> bool:
        return stride_along(offset, rows.variable) == ONE and stride_along(offset, lanes) not in (None, ZERO, ONE)

    stores = [statement for statement in body if isinstance(statement, Store)]
    times = Counter(store.buffer for store in stores)
    loads = dict.fromkeys(load for statement in body for load in _always_made(statement.value))
    return Square(
        rows,
        tuple(each for each in loads if not each.gathers and each.buffer not in times and is_turned(each.index[0])),
        tuple(
            each
            for each in stores
            if each.buffer not in kernel.reads and times[each.buffer] == 1 and is_turned(each.offset)
        ),
    )


def _always_made(body: Expr) -> Iterator[Load]:
    """The loads that no condition guards."""
    if isinstance(body, Load):
        yield body
    for each in (body.condition, body.otherwise) if isinstance(body, Masked) else children(body):
        yield from _always_made(each)


def squares(emitter: KernelEmitter, square: Square) -> None:
    """Blocks of squares, whose lines of memory stay in the cache until the next square takes the rest of them."""
    kernel, writer = emitter.kernel, emitter.writer
    others, last = [loop for loop in kernel.loops[:-1] if loop != square.rows], kernel.loops[-1]
    row, lane = square.rows.variable.name, last.variable.name
    sides = {f"{row}_first": c_index(square.rows.size), lane: c_index(last.size)}
    blocks = [f"for (i64 {at}_block = 0; {at}_block < {end}; {at}_block += {SIDE}*W) {{" for at, end in sides.items()]
    with outer_loops(emitter, others, *blocks):
        parameters = ", ".join(("auto lanes", "auto rows", *(f"i64 {at}" for at in sides)))
        with writer.block(f"const auto square = [&]({parameters}) STEP {{", "};"):
            _body(emitter, square, last.variable)
        for at, end in sides.items():
            writer.line(f"for (i64 {at} = {at}_block; {at} < min_of({at}_block + {SIDE}*W, {end}); {at} += W)")
            writer.depth += 1
        places = ", ".join(sides)
        if all((indexing.constant(loop.size) or 1) % ALIGNED_SIZE == 0 for loop in (square.rows, last)):
            writer.line(f"square(All{{}}, All{{}}, {places});")
        else:
            whole = " && ".join(f"{at} + W <= {end}" for at, end in sides.items())
            rest = ", ".join(f"First{{{end} - {at}}}" for at, end in reversed(sides.items()))
            writer.line(f"if ({whole}) square(All{{}}, All{{}}, {places});")
            writer.line(f"else square({rest}, {places});")
        writer.depth -= len(sides)


def _body(emitter: KernelEmitter, square: Square, lanes: Symbol) -> None:
    kernel, writer, row = emitter.kernel, emitter.writer, square.rows.variable
    turned: dict[Load, str] = {}
    for load in square.loads:
        name = _room(emitter, load.buffer, C_TYPES[load.dtype])
        turned[load] = f"{name} + row*W"
        place = _place(emitter, load.buffer, load.index[0], square, lanes)
        origin = emitter.origins.get(load.buffer, ())
        writer.line(f"load_turned<{C_TYPES[load.dtype]}, W>({name}, {place}, lanes, rows);", origin)
    rooms = {}
    for store in square.stores:
        rooms[store] = _room(emitter, store.buffer, C_TYPES[store.value.dtype])
        emitter.turned[store.buffer] = f"{rooms[store]} + row*W"
    with writer.block("for (i64 row = 0; row < count_of<W>(rows); row++) {"):
        writer.line(f"const i64 {row.name} = {row.name}_first + row;")
        scope = scope_of(emitter, lanes, stored=stored(kernel.body), turned=turned)
        for statement in kernel.body:
            assert isinstance(statement, (Let, Store))
            emit_statement(emitter, scope, statement)
    for store, name in rooms.items():
        place = _place(emitter, store.buffer, store.offset, square, lanes)
        text = (
            f"store_turned<{C_TYPES[store.value.dtype]}, W>({_is_large(emitter, store)}, {name}, {place}, lanes, rows);"
        )
        writer.line(text, emitter.origins.get(store.buffer, ()))


def _room(emitter: KernelEmitter, buffer: str, element: str) -> str:
    name = emitter.names.fresh("square")
    emitter.writer.line(f"alignas(64) {element} {name}[W*W];", emitter.origins.get(buffer, ()))
    return name


def _place(emitter: KernelEmitter, buffer: str, offset: Index, square: Square, lanes: Symbol) -> str:
    """Where a square begins, and how far apart its lanes are."""
    row = square.rows.variable
    begin = c_index(offset, {row: f"{row.name}_first"})
    step = stride_along(offset, lanes)
    assert step is not None
    begin = f"({begin})" if " - " in begin else begin
    return f"{emitter.names.pointers[buffer]} + {begin}, {c_index(step)}"


def _is_large(emitter: KernelEmitter, store: Store) -> str:
    size = emitter.streamed.get(store.buffer)
    if size is None:
        return "false"
    count = indexing.constant(size)
    return f"{emitter.names.pointers[store.buffer]}_is_large" if count is None else str(count >= STREAMED_BYTES).lower()
