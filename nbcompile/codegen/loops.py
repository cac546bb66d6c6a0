"""Vectorised loops: the body is written once, as a lambda over the active lanes; main loop and tail call it.

    const auto step = [&](auto lanes, i64 i0) STEP { store(out0 + i0, lanes, tanh(load<f32, W>(in0 + i0, lanes))); };
    i64 i0 = 0;
    for (; i0 + W <= 1000; i0 += W) step(All{}, i0);
    if (i0 < 1000) step(First{1000 - i0}, i0);

In torch: torch/_inductor/codegen/cpp.py (CppKernelProxy.codegen_functions: main loop and tail). Read next:
nbcompile/codegen/column_reduction.py
"""

from __future__ import annotations

from nbcompile.codegen.accumulators import (
    REDUCTIONS,
    accumulator_type,
    declare_accumulators,
    declare_scan,
    emit_combine,
    emit_scan_step,
    reduce_accumulators,
)
from nbcompile.codegen.emitter import KernelEmitter, close_loop, open_loop, outer_loops, scope_of
from nbcompile.codegen.kernel_analysis import prefetched_rows, stored_buffers, trip_count
from nbcompile.codegen.machine_model import (
    ALIGNED_SIZE,
    CHEAP_BODY_COST,
    CHEAP_UNROLL,
    CHUNKS,
    COSTLY_UNROLL,
    LONG_REDUCTION,
    OUTER_BLOCK,
)
from nbcompile.codegen.printers import c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.vector_scope import Scope
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Nest
from nbcompile.ir.traversal import cost


def emit_outer_vector_loop(emitter: KernelEmitter) -> None:
    """Emit a kernel without inner loops; the last outer loop is vectorised."""
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    variable, size = last.variable.name, c_index(last.size)
    count = indexing.constant(last.size)
    # The calls of ``step`` are a sequential loop with a tail, which OpenMP cannot divide: threads share blocks of it.
    extra = (
        [f"for (i64 block = 0; block < {size}; block += {OUTER_BLOCK}) {{"]
        if count is None or count > OUTER_BLOCK
        else []
    )
    with outer_loops(emitter, loops, *extra):
        begin, end = ("block", f"min_of(block + {OUTER_BLOCK}, {size})") if extra else ("0", size)
        shared_at = writer.here()
        shared = SourceWriter(depth=writer.depth)
        # The body is emitted once and instantiated twice: for whole vectors (All) and for the tail (First, a mask).
        with writer.block(f"const auto step = [&](auto lanes, i64 {variable}) STEP {{", "};"):
            scope = scope_of(emitter, last.variable, shared=shared, stored=stored_buffers(kernel.body))
            for statement in kernel.body:
                assert not isinstance(statement, Nest)
                emit_statement(emitter, scope, statement)
        writer.insert(shared_at, shared)
        writer.line(f"i64 {variable} = {begin};")
        if extra:
            writer.line(f"const i64 end = {end};")
            end = "end"
        writer.line(f"for (; {variable} + W <= {end}; {variable} += W) step(All{{}}, {variable});")
        # A multiple of ALIGNED_SIZE has no tail for any W. Blocks begin at such multiples, so only the last
        # one has a tail.
        if count is None or count % ALIGNED_SIZE:
            writer.line(f"if ({variable} < {end}) step(First{{{end} - {variable}}}, {variable});")


def emit_vector_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Emit a nest whose last loop is vectorised; accumulators are reduced over the lanes at the end."""
    writer = emitter.writer
    if emitter.kernel.vector_variable is None:
        _emit_serial_nest(emitter, nest)
        return
    *loops, last = nest.loops
    accumulators = [part for part in nest.body if isinstance(part, Accumulate)]
    unroll = accumulator_count(nest) if accumulators else 1
    # Each lane has its own partial result; ``reduce_accumulators`` combines them after the loops.
    for accumulator in accumulators:
        declare_accumulators(emitter, accumulator, unroll)
    for part in nest.body:
        if isinstance(part, Carry):
            declare_scan(emitter, part)
    if is_chunked(emitter.kernel, nest):
        emit_chunked_nest(emitter, nest)
        return
    writer.line("{")
    writer.depth += 1
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    emit_vector_loop(emitter, nest, "0", c_index(last.size), unroll, indexing.constant(last.size))
    for _ in loops:
        writer.depth -= 1
        writer.line("}")
    writer.depth -= 1
    writer.line("}")
    reduce_accumulators(emitter, accumulators, unroll)


def _emit_serial_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Emit a scalar nest, in order: iterations may update the same element."""
    for loop in nest.loops:
        open_loop(emitter.writer, loop.variable.name, "0", c_index(loop.size))
    scope = scope_of(emitter, None, stored=stored_buffers(nest.body))
    for part in nest.body:
        assert not isinstance(part, (Accumulate, Carry))
        emit_statement(emitter, scope, part)
    for _ in nest.loops:
        close_loop(emitter.writer)


def _emit_step(emitter: KernelEmitter, scope: Scope, nest: Nest) -> None:
    """Emit the body for one vector of iterations."""
    for part in nest.body:
        if isinstance(part, Accumulate):
            emit_combine(emitter, scope, part, f"{emitter.label(part.name)}_acc[part]")
        elif isinstance(part, Carry):
            emit_scan_step(emitter, scope, part)
        else:
            emit_statement(emitter, scope, part)
    for load in prefetched_rows(emitter.kernel, nest):
        emitter.writer.line(f"prefetch_l2({emitter.names.pointers[load.buffer]} + {c_index(load.index[0])});")


def emit_vector_loop(emitter: KernelEmitter, nest: Nest, begin: str, end: str, unroll: int, count: int | None) -> None:
    """Emit the step and the loops that call it: unrolled main loop, single vectors, tail."""
    writer = emitter.writer
    last = nest.loops[-1]
    variable = last.variable.name
    accumulators = any(isinstance(part, Accumulate) for part in nest.body)
    shared_at = writer.here()
    shared = SourceWriter(depth=writer.depth)
    # Names that the step defines are local to it: the previous names are restored below.
    before = dict(emitter.locals)
    parameters = f"auto lanes, i64 {variable}" + (", int part" if accumulators else "")
    with writer.block(f"const auto step = [&]({parameters}) STEP {{", "};"):
        scope = scope_of(
            emitter,
            last.variable,
            shared=shared,
            stored=stored_buffers(nest.body),
            transposed_loads=emitter.packed_loads,
        )
        _emit_step(emitter, scope, nest)
    emitter.locals.clear()
    emitter.locals.update(before)
    writer.insert(shared_at, shared)
    writer.line(f"i64 {variable} = {begin};")
    first = ", 0" if accumulators else ""
    #     | unroll * W | unroll * W | W | W | rest |       vectors of a row
    #       0, 1, ...    0, 1, ...    0   0   0            their accumulators
    # The main loop calls the step with a constant accumulator number: each call is inlined with its own registers.
    if unroll > 1:
        calls = " ".join(f"step(All{{}}, {variable}{f' + {at}*W' if at else ''}, {at});" for at in range(unroll))
        writer.line(f"for (; {variable} + {unroll}*W <= {end}; {variable} += {unroll}*W) {{ {calls} }}")
    # The remaining whole vectors go to accumulator 0.
    if unroll == 1 or count is None or count % (ALIGNED_SIZE * unroll):
        writer.line(f"for (; {variable} + W <= {end}; {variable} += W) step(All{{}}, {variable}{first});")
    if count is None or count % ALIGNED_SIZE:
        writer.line(f"if ({variable} < {end}) step(First{{{end} - {variable}}}, {variable}{first});")


def accumulator_count(nest: Nest) -> int:
    """Number of independent accumulators, which hide the latency of the additions."""
    count = indexing.constant(nest.loops[-1].size)
    # With 16 lanes such a short row has at most one whole vector: the other accumulators would be unused.
    if count is not None and count < 2 * ALIGNED_SIZE:
        return 1
    body_cost = sum(cost(part.value) for part in nest.body)
    return CHEAP_UNROLL if body_cost < CHEAP_BODY_COST else COSTLY_UNROLL


def is_chunked(kernel: Kernel, nest: Nest) -> bool:
    """Return whether threads share one long reduction in chunks, as there is only one outer iteration."""
    outer, inner = trip_count(kernel.loops), trip_count(nest.loops)
    return (
        outer is not None and outer <= 1 and (inner is None or inner >= LONG_REDUCTION)
        and any(isinstance(part, Accumulate) for part in nest.body) and not kernel.scratch
        and not any(isinstance(part, Carry) for part in nest.body)
    )  # fmt: skip


def emit_chunked_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Emit a reduction in a fixed number of chunks, combined in order: deterministic for any number of threads."""
    writer = emitter.writer
    accumulators = [part for part in nest.body if isinstance(part, Accumulate)]
    unroll = accumulator_count(nest)
    #     chunks    | 0 | 1 | 2 | ...    distributed over threads, each with accumulators of its own
    #     result    ((0 + 1) + 2) + ...  in this order, whichever was finished first
    # The number of chunks does not depend on the number of threads: floating-point addition is not associative, so
    # another split would give another result. Chunks begin at multiples of W (whole_vectors). Only the first loop is
    # split. With several loops a chunk is some iterations of the outermost, each with whole rows.
    first, *rest = nest.loops
    size, chunks, only_if = c_index(first.size), str(CHUNKS), ""
    if trip_count(nest.loops) is None:
        count = c_index(indexing.product([loop.size for loop in nest.loops]))
        chunks = emitter.names.fresh("chunks")
        writer.line(f"const int {chunks} = {count} >= {LONG_REDUCTION} ? {CHUNKS} : 1;")
        # With a symbolic length the kernel decides at run time: one chunk is the plain loop, without threads.
        only_if = f" if ({chunks} > 1)"
    for part in accumulators:
        cpp_type = accumulator_type(emitter, part)
        writer.line(f"{cpp_type} {emitter.label(part.name)}_chunk[{CHUNKS}];", emitter.origins.get(part.name, ()))
    writer.line(f"#pragma omp parallel for num_threads(context->threads){only_if}")
    with writer.block(f"for (int chunk = 0; chunk < {chunks}; chunk++) {{"):
        for part in accumulators:
            # The accumulators of a chunk shadow those declared outside: each thread has its own.
            declare_accumulators(emitter, part, unroll)
        writer.line(
            f"const i64 length = whole_vectors(({size} + {chunks} - 1) / {chunks}),"
            f" begin = min_of(chunk * length, {size}), end = min_of(begin + length, {size});"
        )
        if rest:
            writer.line(
                f"for (i64 {first.variable.name} = begin; {first.variable.name} < end; {first.variable.name}++) {{"
            )
            writer.depth += 1
            for loop in rest[:-1]:
                open_loop(writer, loop.variable.name, "0", c_index(loop.size))
            emit_vector_loop(emitter, nest, "0", c_index(rest[-1].size), unroll, indexing.constant(rest[-1].size))
            for _ in rest:
                writer.depth -= 1
                writer.line("}")
        else:
            emit_vector_loop(emitter, nest, "begin", "end", unroll, None)
        for part in accumulators:
            name, kind, origin = emitter.label(part.name), REDUCTIONS[part.kind], emitter.origins.get(part.name, ())
            for at in range(1, unroll):
                writer.line(f"{name}_acc[0] = {kind}::join({name}_acc[0], {name}_acc[{at}]);", origin)
            writer.line(f"{name}_chunk[chunk] = {name}_acc[0];", origin)
    for part in accumulators:
        name, kind, origin = emitter.label(part.name), REDUCTIONS[part.kind], emitter.origins.get(part.name, ())
        writer.line(
            f"for (int chunk = 0; chunk < {chunks}; chunk++)"
            f" {name}_acc[0] = {kind}::join({name}_acc[0], {name}_chunk[chunk]);",
            origin,
        )
    reduce_accumulators(emitter, accumulators, 1)
