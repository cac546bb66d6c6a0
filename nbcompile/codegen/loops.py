"""Loops that take W elements at a time, written once as a step over lanes.

    const auto step = [&](auto lanes, i64 i0) STEP { store(out0 + i0, lanes, tanh(load<f32, W>(in0 + i0, lanes))); };
    i64 i0 = 0;
    for (; i0 + W <= 1000; i0 += W) step(All{}, i0);
    if (i0 < 1000) step(First{1000 - i0}, i0);

In torch: torch/_inductor/codegen/cpp.py (CppKernelProxy.codegen_functions: main loop and tail). Read next:
nbcompile/codegen/columns.py
"""

from __future__ import annotations

from nbcompile.codegen.emitter import KernelEmitter, close_loop, open_loop, outer_loops, scope_of
from nbcompile.codegen.facts import coming_rows, stored, trip_count
from nbcompile.codegen.printers import c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.totals import KINDS, carry, combine, finish, held_type, start, start_scan
from nbcompile.codegen.values import ALIGNED_SIZE
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import cost
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Nest

BLOCK = 4096
"""How many iterations of a vectorised outer loop one thread takes at a time."""
CHUNKS = 32
"""Into how many parts a long reduction to few values is cut."""
LONG_REDUCTION = 1 << 16


def vectorised_outside(emitter: KernelEmitter) -> None:
    """The last outer loop takes W lanes, and there are no loops inside it."""
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    variable, size = last.variable.name, c_index(last.size)
    count = indexing.constant(last.size)
    extra = [f"for (i64 block = 0; block < {size}; block += {BLOCK}) {{"] if count is None or count > BLOCK else []
    with outer_loops(emitter, loops, *extra):
        begin, end = ("block", f"min_of(block + {BLOCK}, {size})") if extra else ("0", size)
        shared_at = writer.here()
        shared = SourceWriter(depth=writer.depth)
        with writer.block(f"const auto step = [&](auto lanes, i64 {variable}) STEP {{", "};"):
            scope = scope_of(emitter, last.variable, shared=shared, stored=stored(kernel.body))
            for statement in kernel.body:
                assert not isinstance(statement, Nest)
                emit_statement(emitter, scope, statement)
        writer.insert(shared_at, shared)
        writer.line(f"i64 {variable} = {begin};")
        if extra:
            writer.line(f"const i64 end = {end};")
            end = "end"
        writer.line(f"for (; {variable} + W <= {end}; {variable} += W) step(All{{}}, {variable});")
        if count is None or count % ALIGNED_SIZE:
            writer.line(f"if ({variable} < {end}) step(First{{{end} - {variable}}}, {variable});")


def nest_of_lanes(emitter: KernelEmitter, nest: Nest) -> None:
    """Loops of which the last takes W lanes; totals are combined across the lanes at the end."""
    writer = emitter.writer
    if emitter.kernel.vector_variable is None:
        _serial_nest(emitter, nest)
        return
    *loops, last = nest.loops
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    parts = unrolled(nest) if totals else 1
    for total in totals:
        start(emitter, total, parts)
    for part in nest.body:
        if isinstance(part, Carry):
            start_scan(emitter, part)
    if is_chunked(emitter.kernel, nest):
        chunked_nest(emitter, nest)
        return
    writer.line("{")
    writer.depth += 1
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    vector_loop(emitter, nest, "0", c_index(last.size), parts, indexing.constant(last.size))
    for _ in loops:
        writer.depth -= 1
        writer.line("}")
    writer.depth -= 1
    writer.line("}")
    finish(emitter, totals, parts)


def _serial_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Iterations one by one, in order: they may change the same element."""
    for loop in nest.loops:
        open_loop(emitter.writer, loop.variable.name, "0", c_index(loop.size))
    scope = scope_of(emitter, None, stored=stored(nest.body))
    for part in nest.body:
        assert not isinstance(part, (Accumulate, Carry))
        emit_statement(emitter, scope, part)
    for _ in nest.loops:
        close_loop(emitter.writer)


def vector_loop(emitter: KernelEmitter, nest: Nest, begin: str, end: str, parts: int, count: int | None) -> None:
    """The step and the loops that call it: several blocks at a time, one block, the rest."""
    writer = emitter.writer
    last = nest.loops[-1]
    variable = last.variable.name
    totals = any(isinstance(part, Accumulate) for part in nest.body)
    shared_at = writer.here()
    shared = SourceWriter(depth=writer.depth)
    before = dict(emitter.locals)
    parameters = f"auto lanes, i64 {variable}" + (", int part" if totals else "")
    with writer.block(f"const auto step = [&]({parameters}) STEP {{", "};"):
        scope = scope_of(emitter, last.variable, shared=shared, stored=stored(nest.body), turned=emitter.turned_loads)
        for part in nest.body:
            if isinstance(part, Accumulate):
                combine(emitter, scope, part, f"{emitter.label(part.name)}_total[part]")
            elif isinstance(part, Carry):
                carry(emitter, scope, part)
            else:
                emit_statement(emitter, scope, part)
        for each in coming_rows(emitter.kernel, nest):
            writer.line(f"soon({emitter.names.pointers[each.buffer]} + {c_index(each.index[0])});")
    emitter.locals.clear()
    emitter.locals.update(before)
    writer.insert(shared_at, shared)
    writer.line(f"i64 {variable} = {begin};")
    first = ", 0" if totals else ""
    if parts > 1:
        calls = " ".join(f"step(All{{}}, {variable}{f' + {at}*W' if at else ''}, {at});" for at in range(parts))
        writer.line(f"for (; {variable} + {parts}*W <= {end}; {variable} += {parts}*W) {{ {calls} }}")
    if parts == 1 or count is None or count % (ALIGNED_SIZE * parts):
        writer.line(f"for (; {variable} + W <= {end}; {variable} += W) step(All{{}}, {variable}{first});")
    if count is None or count % ALIGNED_SIZE:
        writer.line(f"if ({variable} < {end}) step(First{{{end} - {variable}}}, {variable}{first});")


def unrolled(nest: Nest) -> int:
    """How many totals are kept side by side, so that one addition need not wait for the last."""
    count = indexing.constant(nest.loops[-1].size)
    if count is not None and count < 2 * ALIGNED_SIZE:
        return 1
    return 4 if sum(cost(part.value) for part in nest.body) < 8 else 2


def is_chunked(kernel: Kernel, nest: Nest) -> bool:
    """Whether a nest is cut in chunks that threads share: few outer iterations, and each of them long."""
    outer, inner = trip_count(kernel.loops), trip_count(nest.loops)
    return (
        outer is not None and outer <= 1 and (inner is None or inner >= LONG_REDUCTION)
        and any(isinstance(part, Accumulate) for part in nest.body) and not kernel.scratch
        and not any(isinstance(part, Carry) for part in nest.body)
    )  # fmt: skip


def chunked_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Chunks of the first loop, each with totals of its own, joined in order: equal for any number of threads."""
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    parts = unrolled(nest)
    first, *rest = nest.loops
    size, chunks, only_if = c_index(first.size), str(CHUNKS), ""
    if trip_count(nest.loops) is None:
        count = c_index(indexing.product([loop.size for loop in nest.loops]))
        chunks = emitter.names.fresh("chunks")
        writer.line(f"const int {chunks} = {count} >= {LONG_REDUCTION} ? {CHUNKS} : 1;")
        only_if = f" if ({chunks} > 1)"
    for part in totals:
        held = held_type(emitter, part)
        writer.line(f"{held} {emitter.label(part.name)}_chunk[{CHUNKS}];", emitter.origins.get(part.name, ()))
    writer.line(f"#pragma omp parallel for num_threads(context->threads){only_if}")
    with writer.block(f"for (int chunk = 0; chunk < {chunks}; chunk++) {{"):
        for part in totals:
            start(emitter, part, parts)
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
            vector_loop(emitter, nest, "0", c_index(rest[-1].size), parts, indexing.constant(rest[-1].size))
            for _ in rest:
                writer.depth -= 1
                writer.line("}")
        else:
            vector_loop(emitter, nest, "begin", "end", parts, None)
        for part in totals:
            name, kind, origin = emitter.label(part.name), KINDS[part.kind], emitter.origins.get(part.name, ())
            for at in range(1, parts):
                writer.line(f"{name}_total[0] = {kind}::join({name}_total[0], {name}_total[{at}]);", origin)
            writer.line(f"{name}_chunk[chunk] = {name}_total[0];", origin)
    for part in totals:
        name, kind, origin = emitter.label(part.name), KINDS[part.kind], emitter.origins.get(part.name, ())
        writer.line(
            f"for (int chunk = 0; chunk < {chunks}; chunk++)"
            f" {name}_total[0] = {kind}::join({name}_total[0], {name}_chunk[chunk]);",
            origin,
        )
    finish(emitter, totals, 1)
