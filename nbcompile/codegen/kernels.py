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
from dataclasses import dataclass, field

import torch

from nbcompile.codegen.column_reduction import emit_column_reduction
from nbcompile.codegen.emitter import KernelEmitter, declare_stack_rows, outer_loops, scope_of
from nbcompile.codegen.kernel_analysis import (
    buffer_origins,
    non_temporal_stores,
    releases_gil,
    size_symbols,
    trip_count,
    vectorises_outer_loop,
)
from nbcompile.codegen.loops import emit_outer_vector_loop, emit_vector_nest
from nbcompile.codegen.packed_panels import PackedPanel, emit_packed_panels, find_packed_panel
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.transpose_tiles import (
    TransposeTile,
    choose_vector_loop,
    emit_transpose_tiles,
    find_transpose_tile,
)
from nbcompile.codegen.vector_scope import KernelNames, Scope, Value, has_64_bit_lanes
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.expr import Apply, Expr, Local
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.kernel import Accumulate, Carry, Inner, Kernel, Let, Nest, Schedule, Statement, Store


def emit_kernel(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """Emit one kernel as one C++ function."""
    kernel = choose_vector_loop(kernel)
    arguments = tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))
    pointers = _pointers(kernel, arguments)
    body = SourceWriter(depth=1)
    origins = buffer_origins(kernel, schedule.program)
    panel = find_packed_panel(kernel)
    names = KernelNames({**pointers, **_rows(kernel, panel)}, extents=_extents(kernel), has_inputs=bool(kernel.reads))
    index_dtype = torch.int64 if needs_64_bit_lanes(kernel) else torch.int32
    tile = find_transpose_tile(kernel) if vectorises_outer_loop(kernel) else None
    non_temporal = non_temporal_stores(kernel, schedule, _scattered(kernel, tile, panel))
    emitter = KernelEmitter(kernel, schedule, body, names, {}, {}, origins, non_temporal, index_dtype)
    # The body is emitted before the prologue, since it determines the vector types, offset tables and
    # error messages of the prologue.
    _kernel_body(emitter, tile, panel)
    sizes = size_symbols(kernel)
    writer = SourceWriter()
    writer.comment("//", f"{kernel.name}: {', '.join(kernel.from_nodes)}" if kernel.from_nodes else kernel.name)
    with writer.block(f"EXPORT i64 {kernel.name}(void *const *pointers, const i64 *sizes, Context *context) {{"):
        _prologue(emitter, writer, arguments, pointers, sizes)
        writer.insert(writer.here(), body)
        if emitter.names.error_messages:
            writer.line("return context->site >= 0;  // whether an index was out of bounds")
        else:
            writer.line("return 0;", role="glue")
    return EmittedKernel(
        kernel.name, kernel.name, writer.text(), arguments, tuple(symbol.name for symbol in sizes),
        kernel.buffers, kernel.from_nodes,
        writer.line_map(), releases_gil(kernel), tuple(emitter.names.error_messages),
    )  # fmt: skip


def _scattered(kernel: Kernel, tile: TransposeTile | None, panel: PackedPanel | None) -> set[str]:
    """Buffers whose stores are not sequential: those of tiles and panels."""
    if tile is not None:
        return set(kernel.writes)
    return {access.buffer for access in panel.accesses if access.is_written} if panel else set()


def _pointers(kernel: Kernel, arguments: Sequence[str]) -> dict[str, str]:
    """Name the pointers: ``in0, in1, ...`` of buffers that are only read, ``out0, ...`` of those that are written."""
    names: dict[str, str] = {}
    for buffer in arguments:
        stem = "out" if buffer in kernel.writes else "in"
        names[buffer] = f"{stem}{sum(name.startswith(stem) for name in names.values())}"
    return names


def _rows(kernel: Kernel, panel: PackedPanel | None) -> dict[str, str]:
    scratch_buffers = () if panel is None else panel.scratch_buffers()
    rows = {scratch.name: f"row{at}" for at, scratch in enumerate(kernel.scratch)}
    return rows | {scratch.name: f"panel{at}" for at, scratch in enumerate(scratch_buffers)}


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
        # An in-place buffer must not be `restrict`: it is read and written through one pointer.
        qualifier = "*" if written and read else "*__restrict "
        kind = element if written else f"const {element}"
        writer.line(
            f"{kind} {qualifier}{pointers[buffer]} = ({kind} *)pointers[{at}];  // {buffer}", emitter.origins[buffer]
        )
    for at, symbol in enumerate(sizes):
        writer.line(f"const i64 {symbol.name} = sizes[{at}];")
    for buffer, non_temporal in emitter.non_temporal.items():
        # A static size was compared at compile time: is_large is then the text "true".
        if indexing.constant(non_temporal.size) is None:
            writer.line(
                f"const bool {pointers[buffer]}_is_large = {c_index(non_temporal.size)} >= {non_temporal.limit};"
            )
    for (offset, variable), name in emitter.names.offset_tables.items():
        function = f"[](i64 {variable.name}) {{ return {c_index(offset)}; }}"
        # The compiler evaluates the index for every iteration, so that a loop with quotients and remainders loads them.
        writer.line(f"static constexpr auto {name} = offsets_of<{emitter.names.extents[variable]}>({function});")
    _declare_vector_types(emitter, writer)


def _declare_vector_types(emitter: KernelEmitter, writer: SourceWriter) -> None:
    """Declare the number of lanes, and a short name for each vector type that the kernel uses."""
    if any(is_vector for _, is_vector in emitter.names.used_types) or emitter.kernel.vector_variable is not None:
        writer.line(f"constexpr int W = {'LANES64' if emitter.index_dtype == torch.int64 else 'LANES32'};")
    for name, is_vector in sorted(emitter.names.used_types):
        writer.line(f"typedef Vec<{name}, {'W' if is_vector else '1'}> {name.upper()}{'' if is_vector else '_1'};")


def needs_64_bit_lanes(kernel: Kernel) -> bool:
    """Return whether some vector of the kernel has 64-bit elements: then it has half as many lanes (LANES64)."""
    # All vectors of a kernel have equally many lanes, so one 64-bit type halves W for all. An index of argmax is int64
    # in the IR, but is kept in 32 bits within the loop if it fits.
    lanes = _LaneTypes(kernel, vectorises_outer_loop(kernel))
    wide = [lanes.are_wide(statement) for statement in kernel.body]  # of all: a statement defines names for the next
    return any(wide)


@dataclass
class _LaneTypes:
    """Types of the vectors of a kernel, found statement by statement."""

    kernel: Kernel
    outside: bool
    """True if the lanes are iterations of the last outer loop: then values outside of the nests are vectors, too."""
    # The same traversal as the emitter's, but without text: only the types and the vectorisation of the
    # values are computed.
    values: dict[str, Value] = field(default_factory=dict)
    index_names: set[str] = field(default_factory=set)
    """Results of argmax and argmin, and int32 values: int64 in the IR, 32 bits wide in the loop."""

    def are_wide(self, statement: Statement) -> bool:
        """Return whether a statement computes a vector of 64-bit elements, and bind the names that it defines."""
        match statement:
            case Nest():
                return self._of_nest(statement)
            case Let() if not self.outside:
                self.values[statement.name] = Value("", False, statement.value.dtype)
            case Store(value=Local(name=name)) if self.outside and name in self.index_names:
                pass  # int32 indices are widened as they are stored, after the loop
            case Let() if _is_cast_of(statement.value, self.index_names):
                self.index_names.add(statement.name)
                self.values[statement.name] = Value("", True, statement.value.dtype)
            case _ if self.outside:
                return self._of_parts(self.kernel.loops[-1].variable, [statement])
        return False

    def _of_nest(self, nest: Nest) -> bool:
        vector = self.kernel.loops[-1].variable if self.outside else nest.loops[-1].variable
        found = self._of_parts(vector, nest.body)
        accumulators = [part for part in nest.body if isinstance(part, Accumulate)]
        arguments = {part.name for part in accumulators if part.kind.startswith("arg")}
        self.index_names |= arguments | {part.name for part in accumulators if part.value.dtype == torch.int32}
        for part in accumulators:
            self.values[part.name] = Value("", self.outside, part.value.dtype)
        # The index is combined lane by lane with its value: it has to have as many lanes.
        return found or (bool(arguments) and not _index_fits_int32(nest))

    def _of_parts(self, vector: Symbol, parts: Sequence[Inner]) -> bool:
        found = False
        for part in parts:
            scope = Scope(SourceWriter(), KernelNames({}), vector, self.values)
            found |= has_64_bit_lanes(scope, part.value) or (isinstance(part, Carry) and part.kind.startswith("arg"))
            if isinstance(part, (Let, Accumulate, Carry)):
                is_vector = self.outside or not isinstance(part, Accumulate)
                self.values[part.name] = Value("", is_vector, part.value.dtype)
        return found


def _is_cast_of(body: Expr, names: set[str]) -> bool:
    match body:
        case Apply("cast", (Local(name),), torch.int64):
            return name in names
    return False


def _index_fits_int32(nest: Nest) -> bool:
    """Return whether the index of an element of the nest fits in int32."""
    count = trip_count(nest.loops)
    return count is not None and count < 1 << 31


def _kernel_body(emitter: KernelEmitter, tile: TransposeTile | None, panel: PackedPanel | None) -> None:
    kernel = emitter.kernel
    # Five forms of a kernel:
    #     panel    lanes along a row whose elements are strided in memory: blocks of rows are packed first
    #     column   lanes are adjacent outer iterations, each with its own reduction
    #     tile     no reduction; two loops, along each of which some access is contiguous
    #     loop     no reduction; the last loop is vectorised
    #     rows     lanes along a row: the passes over each row are vectorised
    if panel is not None:
        emit_packed_panels(emitter, panel)
        return
    if vectorises_outer_loop(kernel):
        if any(isinstance(statement, Nest) for statement in kernel.body):
            emit_column_reduction(emitter)
        elif tile is not None:
            emit_transpose_tiles(emitter, tile)
        else:
            emit_outer_vector_loop(emitter)
        return
    with outer_loops(emitter, kernel.loops):
        declare_stack_rows(emitter, kernel.scratch)
        for statement in kernel.body:
            if isinstance(statement, Nest):
                emit_vector_nest(emitter, statement)
            else:
                emit_statement(emitter, scope_of(emitter, None), statement)
