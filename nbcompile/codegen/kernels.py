"""One kernel as one C++ function.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = max(x[1000*i0 + r0]) ...
    ->  EXPORT i64 kernel0(void *const *pointers, const i64 *sizes, Context *context) {
          const f32 *__restrict in0 = (const f32 *)pointers[0];  // x
          constexpr int W = LANES32;
          ...

In torch: torch/_inductor/codegen/cpp.py (CppScheduling, KernelGroup). Read next:
nbcompile/codegen/cpp.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nbcompile.codegen.columns import columns
from nbcompile.codegen.emitter import KernelEmitter, outer_loops, rows_on_stack, scope_of
from nbcompile.codegen.facts import (
    lengthy,
    own_work,
    size_symbols,
    streamed,
    trip_count,
    vector_is_outside,
)
from nbcompile.codegen.loops import nest_of_lanes, vectorised_outside
from nbcompile.codegen.panels import Panel, panel_of, panels
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.squares import Square, square_of, squares, with_better_lanes
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.values import Names, Scope, Value, wide_values
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.expr import Apply, Expr, Local
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.kernel import Accumulate, Carry, Inner, Kernel, Let, Nest, Schedule, Store


def emit_kernel(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One kernel as one C++ function."""
    kernel = with_better_lanes(kernel)
    arguments = tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))
    pointers = _pointers(kernel, arguments)
    body = SourceWriter(depth=1)
    origins = own_work(kernel, schedule.program)
    panel = panel_of(kernel)
    names = Names({**pointers, **_rows(kernel, panel)}, extents=_extents(kernel))
    places = torch.int64 if half_width(kernel) else torch.int32
    square = square_of(kernel) if vector_is_outside(kernel) else None
    large = streamed(kernel, schedule, _scattered(kernel, square, panel))
    emitter = KernelEmitter(kernel, schedule, body, names, {}, {}, origins, large, places)
    _kernel_body(emitter, square, panel)
    sizes = size_symbols(kernel)
    writer = SourceWriter()
    writer.comment("//", f"{kernel.name}: {', '.join(kernel.from_nodes)}" if kernel.from_nodes else kernel.name)
    with writer.block(f"EXPORT i64 {kernel.name}(void *const *pointers, const i64 *sizes, Context *context) {{"):
        _prologue(emitter, writer, arguments, pointers, sizes)
        writer.insert(writer.here(), body)
        if emitter.names.complaints:
            writer.line("return context->site >= 0;  // whether an index was out of bounds")
        else:
            writer.line("return 0;", role="glue")
    return EmittedKernel(
        kernel.name, kernel.name, writer.text(), arguments, tuple(symbol.name for symbol in sizes),
        kernel.buffers, kernel.from_nodes,
        writer.line_map(), lengthy(kernel), tuple(emitter.names.complaints),
    )  # fmt: skip


def _scattered(kernel: Kernel, square: Square | None, panel: Panel | None) -> set[str]:
    """The buffers in which lines that are stored one after the other are far from each other."""
    if square is not None:
        return set(kernel.writes)
    return {each.buffer for each in panel.turned if each.is_written} if panel else set()


def _pointers(kernel: Kernel, arguments: Sequence[str]) -> dict[str, str]:
    """``in0, in1, ...`` for what is only read, ``out0, ...`` for what is written."""
    names: dict[str, str] = {}
    for buffer in arguments:
        stem = "out" if buffer in kernel.writes else "in"
        names[buffer] = f"{stem}{sum(each.startswith(stem) for each in names.values())}"
    return names


def _rows(kernel: Kernel, panel: Panel | None) -> dict[str, str]:
    rooms = () if panel is None else panel.rooms()
    rows = {scratch.name: f"row{at}" for at, scratch in enumerate(kernel.scratch)}
    return rows | {room.name: f"panel{at}" for at, room in enumerate(rooms)}


def _extents(kernel: Kernel) -> dict[Symbol, Index]:
    nests = (statement.loops for statement in kernel.body if isinstance(statement, Nest))
    return {loop.variable: loop.size for loops in (kernel.loops, *nests) for loop in loops}


def _prologue(
    emitter: KernelEmitter,
    writer: SourceWriter,
    arguments: Sequence[str],
    pointers: dict[str, str],
    sizes: Sequence[Symbol],
) -> None:
    kernel, tensors = emitter.kernel, emitter.schedule.program.tensors()
    for at, buffer in enumerate(arguments):
        element = C_TYPES[tensors[buffer].dtype]
        written, read = buffer in kernel.writes, buffer in kernel.reads
        # Memory that is read and written through one pointer may not be promised to be apart from itself.
        qualifier = "*" if written and read else "*__restrict "
        kind = element if written else f"const {element}"
        writer.line(
            f"{kind} {qualifier}{pointers[buffer]} = ({kind} *)pointers[{at}];  // {buffer}", emitter.origins[buffer]
        )
    for at, symbol in enumerate(sizes):
        writer.line(f"const i64 {symbol.name} = sizes[{at}];")
    for buffer, large in emitter.streamed.items():
        if indexing.constant(large.size) is None:
            writer.line(f"const bool {pointers[buffer]}_is_large = {c_index(large.size)} >= {large.limit};")
    for (offset, variable), name in emitter.names.places.items():
        function = f"[](i64 {variable.name}) {{ return {c_index(offset)}; }}"
        writer.line(f"static constexpr auto {name} = places_of<{emitter.names.extents[variable]}>({function});")
    if any(many for _, many in emitter.names.used_types) or emitter.kernel.vector_variable is not None:
        writer.line(f"constexpr int W = {'LANES64' if emitter.places == torch.int64 else 'LANES32'};")
    for name, many in sorted(emitter.names.used_types):
        writer.line(f"typedef Vec<{name}, {'W' if many else '1'}> {name.upper()}{'' if many else '_1'};")


def half_width(kernel: Kernel) -> bool:
    """Whether lanes must be 64 bits wide."""
    outside = vector_is_outside(kernel)
    many: dict[str, Value] = {}
    places: set[str] = set()

    def wide(vector: Symbol, parts: Sequence[Inner]) -> bool:
        found = False
        for part in parts:
            scope = Scope(SourceWriter(), Names({}), vector, many)
            found |= wide_values(scope, part.value) or (isinstance(part, Carry) and part.kind.startswith("arg"))
            if isinstance(part, (Let, Accumulate, Carry)):
                many[part.name] = Value("", outside or not isinstance(part, Accumulate), part.value.dtype)
        return found

    found = False
    for statement in kernel.body:
        if isinstance(statement, Nest):
            vector = kernel.loops[-1].variable if outside else statement.loops[-1].variable
            found |= wide(vector, statement.body)
            named = {
                part.name for part in statement.body if isinstance(part, Accumulate) and part.kind.startswith("arg")
            }
            found |= bool(named) and not _short_places(statement)
            places |= named | {
                part.name for part in statement.body if isinstance(part, Accumulate) and part.value.dtype == torch.int32
            }
            for part in statement.body:
                if isinstance(part, Accumulate):
                    many[part.name] = Value("", outside, part.value.dtype)
        elif (
            outside
            and isinstance(statement, Store)
            and isinstance(statement.value, Local)
            and statement.value.name in places
        ):
            continue  # stored as they are, after the loop
        elif outside and isinstance(statement, Let) and _is_cast_of(statement.value, places):
            places.add(statement.name)
            many[statement.name] = Value("", True, statement.value.dtype)
        elif outside:
            found |= wide(kernel.loops[-1].variable, [statement])
        elif isinstance(statement, Let):
            many[statement.name] = Value("", False, statement.value.dtype)
    return found


def _is_cast_of(body: Expr, names: set[str]) -> bool:
    match body:
        case Apply("cast", (Local(name),), torch.int64):
            return name in names
    return False


def _short_places(nest: Nest) -> bool:
    """Whether a place of an element fits in 32 bits."""
    count = trip_count(nest.loops)
    return count is not None and count < 1 << 31


def _kernel_body(emitter: KernelEmitter, square: Square | None, panel: Panel | None) -> None:
    kernel = emitter.kernel
    if panel is not None:
        panels(emitter, panel)
        return
    if vector_is_outside(kernel):
        if any(isinstance(statement, Nest) for statement in kernel.body):
            columns(emitter)
        elif square is not None:
            squares(emitter, square)
        else:
            vectorised_outside(emitter)
        return
    with outer_loops(emitter, kernel.loops):
        rows_on_stack(emitter, kernel.scratch)
        for statement in kernel.body:
            if isinstance(statement, Nest):
                nest_of_lanes(emitter, statement)
            else:
                emit_statement(emitter, scope_of(emitter, None), statement)
