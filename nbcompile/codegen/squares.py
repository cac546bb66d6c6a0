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
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbcompile.codegen.emitter import KernelEmitter, is_large, outer_loops, scope_of
from nbcompile.codegen.facts import always_made, stored, vector_is_outside
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.values import ALIGNED_SIZE
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import OPERATIONS, Apply, Expr, IndexOf, Load, Local, children, loads, walk
from nbcompile.ir.index import ONE, ZERO, Index, Symbol, stride_along
from nbcompile.ir.kernel import Kernel, Let, Loop, Store

FEW = 8
"""With fewer iterations of a loop most of a square would be empty."""
SIDE, LONG_SIDE = 4, 16
"""How many squares a block is wide, and long: lines that begin within a square are shared by two."""
TURN_COST = 6
"""What it takes to turn a row of a square, in additions of vectors."""


@dataclass(frozen=True, slots=True)
class Square:
    """The loop that makes the rows of squares, and what is turned."""

    rows: Loop
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def with_better_lanes(kernel: Kernel) -> Kernel:
    """The kernel with its lanes along the other side of its squares, if they have less to do there.

    What only a row needs (the scale of a channel, its root) is computed again for each row of each square; what only
    the lanes need, once for a whole square. Which side is which, a square may choose: what was turned then is not.
    """
    square = square_of(kernel) if vector_is_outside(kernel) else None
    if square is None:
        return kernel
    rows, last = square.rows, kernel.loops[-1]
    loops = tuple({rows: last, last: rows}.get(loop, loop) for loop in kernel.loops)
    other = replace(kernel, loops=loops, vector_variable=rows.variable)
    turned = _across(other, [each for each in other.body if isinstance(each, (Let, Store))], last, rows.variable)
    return other if _cost(other, turned) < _cost(kernel, square) else kernel


def _cost(kernel: Kernel, square: Square) -> tuple[int, int]:
    """What goes lane by lane, then what each row of a square takes beside what any order would."""
    rows, lanes = square.rows.variable, kernel.loops[-1].variable
    moves = _moves(kernel)
    places = [node.index[0] for node in moves if isinstance(node, Load) and node not in square.loads]
    places += [each.offset for each in kernel.body if isinstance(each, Store) and each not in square.stores]
    alone = [node for node, variables in moves.items() if rows in variables and lanes not in variables]
    return (
        sum(stride_along(place, lanes) not in (ZERO, ONE) for place in places),
        TURN_COST * (len(square.loads) + len(square.stores))
        + sum(OPERATIONS[node.op].cost if isinstance(node, Apply) else isinstance(node, Load) for node in alone),
    )


def _moves(kernel: Kernel) -> dict[Expr, frozenset[Symbol]]:
    """The values of a pointwise kernel, each with what moves it: the variables of the places that it is made from."""
    found: dict[Expr, frozenset[Symbol]] = {}
    named: dict[str, frozenset[Symbol]] = {}
    for statement in kernel.body:
        assert isinstance(statement, (Let, Store))
        for node in reversed(list(walk(statement.value))):
            match node:
                case Load(index=places):
                    own = frozenset[Symbol]().union(*(place.free_symbols for place in places))
                case IndexOf(index=place):
                    own = frozenset(place.free_symbols)
                case Local(name):
                    own = named.get(name, frozenset())
                case _:
                    own = frozenset()
            found[node] = own.union(*(found[part] for part in children(node)))
        if isinstance(statement, Let):
            named[statement.name] = found[statement.value]
    return found


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
    loads = dict.fromkeys(load for statement in body for load in always_made(statement.value))
    return Square(
        rows,
        tuple(each for each in loads if not each.gathers and each.buffer not in times and is_turned(each.index[0])),
        tuple(
            each
            for each in stores
            if each.buffer not in kernel.reads and times[each.buffer] == 1 and is_turned(each.offset)
        ),
    )


def squares(emitter: KernelEmitter, square: Square) -> None:
    """Blocks of squares, whose lines of memory stay in the cache until the next square takes the rest of them."""
    kernel, writer = emitter.kernel, emitter.writer
    others, last = [loop for loop in kernel.loops[:-1] if loop != square.rows], kernel.loops[-1]
    row, lane = square.rows.variable.name, last.variable.name
    ends = {f"{row}_first": c_index(square.rows.size), lane: c_index(last.size)}
    # Lines are asked for ahead by the processor where loads go on: that is the way to go, and far.
    ways = list(reversed(ends) if _loads_along_rows(kernel, square) else ends)
    sides = dict(zip(ways, (SIDE, LONG_SIDE), strict=True))
    blocks = [
        f"for (i64 {at}_block = 0; {at}_block < {end}; {at}_block += {sides[at]}*W) {{" for at, end in ends.items()
    ]
    with outer_loops(emitter, others, *blocks):
        parameters = ", ".join(("auto lanes", "auto rows", *(f"i64 {at}" for at in ends)))
        with writer.block(f"const auto square = [&]({parameters}) STEP {{", "};"):
            _body(emitter, square, last.variable)
        for at in ways:
            end = f"min_of({at}_block + {sides[at]}*W, {ends[at]})"
            writer.line(f"for (i64 {at} = {at}_block; {at} < {end}; {at} += W)")
            writer.depth += 1
        places = ", ".join(ends)
        if all((indexing.constant(loop.size) or 1) % ALIGNED_SIZE == 0 for loop in (square.rows, last)):
            writer.line(f"square(All{{}}, All{{}}, {places});")
        else:
            whole = " && ".join(f"{at} + W <= {end}" for at, end in ends.items())
            rest = ", ".join(f"First{{{end} - {at}}}" for at, end in reversed(ends.items()))
            writer.line(f"if ({whole}) square(All{{}}, All{{}}, {places});")
            writer.line(f"else square({rest}, {places});")
        writer.depth -= len(ways)


def _loads_along_rows(kernel: Kernel, square: Square) -> bool:
    """Whether what is turned is most of what is loaded."""
    lanes = kernel.loops[-1].variable
    body = [statement.value for statement in kernel.body if isinstance(statement, (Let, Store))]
    both = {
        load for value in body for load in loads(value) if {square.rows.variable, lanes} <= load.index[0].free_symbols
    }
    return 2 * len(square.loads) > len(both)


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
        arguments = f"{is_large(emitter, store.buffer)}, {name}, {place}, lanes, rows"
        text = f"store_turned<{C_TYPES[store.value.dtype]}, W>({arguments});"
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
