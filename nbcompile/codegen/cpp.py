"""A schedule as one C++ translation unit, and the Python that calls it.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = max(x[1000*i0 + r0]) ...
    ->  EXPORT i64 kernel0(void *const *pointers, const i64 *sizes, Context *context) {
          ...
          #pragma omp parallel for num_threads(context->threads)
          for (i64 i0 = 0; i0 < 64; i0++) {
            F32 buf0[4] = {Max::start<f32, W>(), ...};
            const auto step = [&](auto lanes, i64 r0, int part) STEP { combine<Max>(buf0[part], lanes, ...); };

A vectorised loop is written once, as a step over W lanes, and called for
blocks of W and for the few elements that remain. Kernels with equal text
become one function: twelve equal layers of a model are compiled once.

In torch: torch/_inductor/codegen/cpp.py. Read next:
nbcompile/codegen/wrapper.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import sympy
import torch

from nbcompile.codegen.header import header_for
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.values import Names, Scope, Value, as_many, emit_place, emit_value, type_name, wide_values
from nbcompile.codegen.wrapper import make_plan, write_wrapper
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.buffer import Extern
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.expr import Expr, IndexOf, cost, walk
from nbcompile.ir.index import Symbol
from nbcompile.ir.kernel import Accumulate, Kernel, Let, Loop, Nest, Schedule, Statement, Store, Update, access
from nbcompile.record import model

SERIAL_WORK = 32768
"""Below so many additions a second thread costs more than it gives (a barrier takes some microseconds)."""
LENGTHY_WORK = 200_000
"""Above so many additions other Python threads may run meanwhile."""
BLOCK = 4096
"""How many iterations of a vectorised outer loop one thread takes at a time."""
STACK_BYTES = 1 << 17
"""Scratch rows up to this size live on the stack."""
ALIGNED_SIZE = 16
"""The most lanes there are: a multiple of it has no remainder on any machine."""
CHUNKS = 32
"""Into how many parts a long reduction to few values is cut."""
LONG_REDUCTION = 1 << 16
SHORT_SUM = 64
"""So many values are added one after the other before their sum joins the total."""

KINDS = {
    "sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "Every",
    "argmax": "Arg<true>", "argmin": "Arg<false>",
}  # fmt: skip


def emit(schedule: Schedule) -> EmittedProgram:
    """The source text of every kernel of a schedule, and its wrapper."""
    functions: dict[str, str] = {}
    kernels = []
    for kernel in schedule.kernels():
        emitted = emit_kernel(kernel, schedule)
        twin = functions.setdefault(_signature(emitted), emitted.name)
        kernels.append(replace(emitted, function=twin))
    source = "".join(kernel.source + "\n" for kernel in kernels if kernel.function == kernel.name)
    externs = tuple(step for step in schedule.steps if isinstance(step, Extern))
    plan, reason = make_plan(schedule, kernels)
    wrapper = write_wrapper(schedule, kernels)
    return EmittedProgram(schedule, unit(source), wrapper, tuple(kernels), externs, plan, reason)


def unit(functions: str) -> str:
    """Kernels as a translation unit; "" if there are none."""
    return f"{header_for(functions)}\nusing namespace nb;\n\n{functions}" if functions else ""


def describe(emitted: EmittedProgram, compile_id: str = "") -> tuple[model.Kernel, ...]:
    """The record's entries: what was generated, and what ATen runs and why."""
    generated = [
        model.Kernel(
            f"{compile_id}.{kernel.name}",
            kernel.name,
            kernel.language,
            kernel.source,
            kernel.buffers,
            kernel.from_nodes,
            kernel.lines,
        )
        for kernel in emitted.kernels
    ]
    called = [
        model.Kernel(
            f"{compile_id}.{extern.name}",
            str(extern.target),
            "aten",
            "",
            (extern.name,),
            extern.from_nodes,
            (),
            extern.reason,
        )
        for extern in emitted.externs
    ]
    return (*generated, *called)


def _signature(kernel: EmittedKernel) -> str:
    """The text without comments and its own name: equal for kernels that do the same."""
    text = re.sub(r"\s*//.*", "", kernel.source).replace(f" {kernel.name}(", " (")
    return f"{text}{kernel.complaints}"


# --- one kernel ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KernelEmitter:
    """What is known while one kernel is written."""

    kernel: Kernel
    schedule: Schedule
    writer: SourceWriter
    names: Names
    locals: dict[str, Value]
    """Values of width 1 (or W, inside a vectorised outer loop), by name in the IR."""
    labels: dict[str, str]
    """C++ names of locals: equal kernels must not differ in them."""
    origins: dict[str, tuple[str, ...]]

    def label(self, name: str) -> str:
        """The C++ name of a local."""
        return self.labels.setdefault(name, f"v{len(self.labels)}")


def emit_kernel(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One kernel as one C++ function."""
    arguments = tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))
    pointers = _pointers(kernel, arguments)
    body = SourceWriter(depth=1)
    origins = {buffer.name: buffer.from_nodes for buffer in schedule.program.buffers}
    emitter = KernelEmitter(kernel, schedule, body, Names({**pointers, **_rows(kernel)}), {}, {}, origins)
    _kernel_body(emitter)
    sizes = size_symbols(kernel)
    writer = SourceWriter()
    writer.line(f"// {kernel.name}: {', '.join(kernel.from_nodes)}" if kernel.from_nodes else f"// {kernel.name}")
    with writer.block(f"EXPORT i64 {kernel.name}(void *const *pointers, const i64 *sizes, Context *context) {{"):
        _prologue(emitter, writer, arguments, pointers, sizes)
        writer.insert(writer.here(), body)
        writer.line(
            "return context->site >= 0;  // whether an index was out of bounds"
            if emitter.names.complaints
            else "return 0;"
        )
    return EmittedKernel(
        kernel.name, kernel.name, writer.text(), arguments, tuple(symbol.name for symbol in sizes),
        kernel.buffers, kernel.from_nodes,
        writer.line_map(), _lengthy(kernel), tuple(emitter.names.complaints),
    )  # fmt: skip


def _pointers(kernel: Kernel, arguments: Sequence[str]) -> dict[str, str]:
    """``in0, in1, ...`` for what is only read, ``out0, ...`` for what is written."""
    names: dict[str, str] = {}
    for buffer in arguments:
        stem = "out" if buffer in kernel.writes else "in"
        names[buffer] = f"{stem}{sum(each.startswith(stem) for each in names.values())}"
    return names


def _rows(kernel: Kernel) -> dict[str, str]:
    return {scratch.name: f"row{at}" for at, scratch in enumerate(kernel.scratch)}


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
        writer.line(f"{kind} {qualifier}{pointers[buffer]} = ({kind} *)pointers[{at}];  // {buffer}")
    for at, symbol in enumerate(sizes):
        writer.line(f"const i64 {symbol.name} = sizes[{at}];")
    if any(many for _, many in emitter.names.used_types) or emitter.kernel.vector_variable is not None:
        writer.line(f"constexpr int W = {'LANES64' if _half_width(kernel) else 'LANES32'};")
    for name, many in sorted(emitter.names.used_types):
        writer.line(f"typedef Vec<{name}, {'W' if many else '1'}> {name.upper()}{'' if many else '_1'};")


def size_symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    """Symbolic sizes that the kernel mentions anywhere, in order of their names."""
    bound = {loop.variable for loop in kernel.loops}
    found: set[sympy.Symbol] = set()
    for scratch in kernel.scratch:
        found |= scratch.size.free_symbols
    for loop in kernel.loops:
        found |= loop.size.free_symbols
    for statement in _flat(kernel.body):
        if isinstance(statement, Nest):
            for loop in statement.loops:
                bound.add(loop.variable)
                found |= loop.size.free_symbols
            continue
        if isinstance(statement, Store):
            found |= statement.offset.free_symbols
        if isinstance(statement, Accumulate):
            found |= statement.place.free_symbols
        places = walk(statement.place) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *places):
            for index in getattr(node, "index", ()) if not isinstance(node, IndexOf) else (node.index,):
                found |= index.free_symbols
            for gather in getattr(node, "gathers", ()):
                bound.add(gather.symbol)
                found |= gather.size.free_symbols
    return tuple(sorted(found - bound, key=lambda symbol: symbol.name))


def _flat(body: Sequence[Statement]) -> Iterator[Let | Store | Update | Accumulate | Nest]:
    for statement in body:
        yield statement
        if isinstance(statement, Nest):
            yield from statement.body


# --- how much work ---------------------------------------------------------------------------------------------------


def _trips(loops: Sequence[Loop]) -> int | None:
    """How often the innermost body runs; None if that depends on a symbol."""
    return indexing.constant(indexing.product([loop.size for loop in loops]))


def _work(kernel: Kernel) -> int | None:
    """About how many additions one call takes; None: depends on a symbol."""
    outer = _trips(kernel.loops)
    total = 0
    for statement in kernel.body:
        inner, parts = (_trips(statement.loops), statement.body) if isinstance(statement, Nest) else (1, (statement,))
        if inner is None:
            return None
        total += inner * sum(1 + cost(part.value) for part in parts)
    return None if outer is None else outer * total


def _lengthy(kernel: Kernel) -> bool:
    work = _work(kernel)
    return work is None or work > LENGTHY_WORK


def _half_width(kernel: Kernel) -> bool:
    """Whether lanes must be 64 bits wide."""
    outside = vector_is_outside(kernel)
    many: dict[str, Value] = {}

    def wide(vector: Symbol, parts: Sequence[Let | Store | Update | Accumulate]) -> bool:
        found = False
        for part in parts:
            scope = Scope(SourceWriter(), Names({}), vector, many)
            found |= wide_values(scope, part.value) or (isinstance(part, Accumulate) and part.kind.startswith("arg"))
            if isinstance(part, (Let, Accumulate)):
                many[part.name] = Value("", outside or isinstance(part, Let), part.value.dtype)
        return found

    found = False
    for statement in kernel.body:
        if isinstance(statement, Nest):
            vector = kernel.loops[-1].variable if outside else statement.loops[-1].variable
            found |= wide(vector, statement.body)
            for part in statement.body:
                if isinstance(part, Accumulate):
                    many[part.name] = Value("", outside, part.value.dtype)
        elif outside:
            found |= wide(kernel.loops[-1].variable, [statement])
        elif isinstance(statement, Let):
            many[statement.name] = Value("", False, statement.value.dtype)
    return found


def vector_is_outside(kernel: Kernel) -> bool:
    """Whether the last outer loop is the vectorised one."""
    return bool(kernel.loops) and kernel.vector_variable == kernel.loops[-1].variable


# --- loops -----------------------------------------------------------------------------------------------------------


def _kernel_body(emitter: KernelEmitter) -> None:
    kernel = emitter.kernel
    if vector_is_outside(kernel):
        has_nests = any(isinstance(statement, Nest) for statement in kernel.body)
        _columns(emitter) if has_nests else _vectorised_outside(emitter)
        return
    with _outer_loops(emitter, kernel.loops):
        _scratch(emitter)
        for statement in kernel.body:
            if isinstance(statement, Nest):
                _nest(emitter, statement)
            else:
                _statement(emitter, _scope(emitter, None), statement)


@contextmanager
def _outer_loops(emitter: KernelEmitter, loops: Sequence[Loop], extra: str = "") -> Iterator[None]:
    """Parallel loops; ``extra`` is the header of one more loop that is collapsed with them."""
    writer = emitter.writer
    headers = [
        f"for (i64 {loop.variable.name} = 0; {loop.variable.name} < {c_index(loop.size)}; {loop.variable.name}++) {{"
        for loop in loops
    ]
    headers += [extra] if extra else []
    pragma = _pragma(emitter.kernel, loops, len(headers), bool(extra))
    if pragma:
        writer.line(pragma)
    if not headers:
        headers = ["{"]
    for header in headers:
        writer.line(header)
        writer.depth += 1
    yield
    for _ in headers:
        writer.depth -= 1
        writer.line("}")


def _pragma(kernel: Kernel, loops: Sequence[Loop], count: int, blocks: bool) -> str:
    work, trips = _work(kernel), _trips(loops)
    if not count or (work is not None and work < SERIAL_WORK) or (trips is not None and trips <= 1 and not blocks):
        return ""
    parts = ["#pragma omp parallel for"]
    if count > 1:
        parts.append(f"collapse({count})")
    parts.append("num_threads(context->threads)")
    if work is None:
        amount = indexing.product([loop.size for loop in kernel.loops])
        inner = [indexing.product([loop.size for loop in each.loops]) for each in kernel.body if isinstance(each, Nest)]
        parts.append(f"if ({c_index(amount * sympy.Add(*inner) if inner else amount)} > {SERIAL_WORK // 4})")
    return " ".join(parts)


def _scratch(emitter: KernelEmitter) -> None:
    for scratch in emitter.kernel.scratch:
        name, element = emitter.names.pointers[scratch.name], C_TYPES[scratch.dtype]
        elements = indexing.constant(scratch.size)
        if elements is not None and elements * scratch.dtype.itemsize <= STACK_BYTES:
            emitter.writer.line(f"alignas(64) {element} {name}[{max(elements, 1)}];  // {scratch.name}")
        else:
            emitter.writer.line(f"Row<{element}> {name}_memory({c_index(scratch.size)});  // {scratch.name}")
            emitter.writer.line(f"{element} *const {name} = {name}_memory.start;")


def _scope(emitter: KernelEmitter, vector: Symbol | None, **more: object) -> Scope:
    return Scope(emitter.writer, emitter.names, vector, emitter.locals, **more)  # type: ignore[arg-type]


def _stored(parts: Sequence[Statement | Accumulate]) -> frozenset[str]:
    names = set()
    for part in parts:
        if isinstance(part, (Store, Update)):
            names.add(part.buffer)
        elif isinstance(part, Nest):
            names |= _stored(part.body)
    return frozenset(names)


def _vectorised_outside(emitter: KernelEmitter) -> None:
    """The last outer loop takes W lanes, and there are no loops inside it."""
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    variable, size = last.variable.name, c_index(last.size)
    count = indexing.constant(last.size)
    extra = f"for (i64 block = 0; block < {size}; block += {BLOCK}) {{" if count is None or count > BLOCK else ""
    with _outer_loops(emitter, loops, extra):
        begin, end = ("block", f"min_of(block + {BLOCK}, {size})") if extra else ("0", size)
        shared_at = writer.here()
        shared = SourceWriter(depth=writer.depth)
        with writer.block(f"const auto step = [&](auto lanes, i64 {variable}) STEP {{", "};"):
            scope = _scope(emitter, last.variable, shared=shared, stored=_stored(kernel.body))
            for statement in kernel.body:
                assert not isinstance(statement, Nest)
                _statement(emitter, scope, statement)
        writer.insert(shared_at, shared)
        writer.line(f"i64 {variable} = {begin};")
        if extra:
            writer.line(f"const i64 end = {end};")
            end = "end"
        writer.line(f"for (; {variable} + W <= {end}; {variable} += W) step(All{{}}, {variable});")
        if count is None or count % ALIGNED_SIZE:
            writer.line(f"if ({variable} < {end}) step(First{{{end} - {variable}}}, {variable});")


# --- columns ---------------------------------------------------------------------------------------------------------


def _columns(emitter: KernelEmitter) -> None:
    """A reduction down columns: a step takes several vectors of columns side by side down all rows.

    One vector would wait for each addition to end before the next; and of each
    row it would read one cache line, where several are read at the cost of one.
    """
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    size, count = c_index(last.size), indexing.constant(last.size)
    writer.line(f"constexpr int PARTS = {_side_by_side(kernel, count)};")
    with _outer_loops(emitter, loops, f"for (i64 first = 0; first < {size}; first += PARTS*W) {{"):
        with writer.block("const auto step = [&](auto parts, auto lanes, i64 start) STEP {", "};"):
            for statement in kernel.body:
                if isinstance(statement, Nest):
                    _nest_of_columns(emitter, statement)
                else:
                    _column_value(emitter, statement)
        writer.line(f"if (first + PARTS*W <= {size}) step(Parts<PARTS>{{}}, All{{}}, first);")
        writer.line(
            f"else for (i64 start = first; start < {size}; start += W)"
            f" step(Parts<1>{{}}, First{{{size} - start}}, start);"
        )


def _side_by_side(kernel: Kernel, count: int | None) -> str:
    """How many vectors a step takes: as many as there are, and fewer where each needs many registers."""
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    totals = max(sum(isinstance(part, Accumulate) for part in nest.body) for nest in nests)
    heavy = max(sum(cost(part.value) for part in nest.body) for nest in nests)
    arguments = any(
        isinstance(part, Accumulate) and part.kind.startswith("arg") for nest in nests for part in nest.body
    )
    most = 2 if arguments or heavy > 16 else 8 if totals <= 2 and heavy <= 6 else 4
    return str(most) if count is None else f"parts_in({count}, W, {most})"


@contextmanager
def _each_part(emitter: KernelEmitter) -> Iterator[Scope]:
    """The same for each vector of a step; what they share is computed before."""
    writer, last = emitter.writer, emitter.kernel.loops[-1].variable
    before = dict(emitter.locals)
    shared_at, shared = writer.here(), SourceWriter(depth=writer.depth)
    with writer.block("each_part(parts, [&](int part) STEP {", "});"):
        writer.line(f"const i64 {last.name} = start + part*W;")
        yield _scope(emitter, last, shared=shared, stored=_stored(emitter.kernel.body))
    writer.insert(shared_at, shared)
    emitter.locals.clear()
    emitter.locals.update(before)


def _column_value(emitter: KernelEmitter, statement: Let | Store | Update) -> None:
    """A value of each column, kept for what follows, or its way into memory."""
    if isinstance(statement, (Store, Update)):
        with _each_part(emitter) as scope:
            _statement(emitter, scope, statement)
        return
    name, origin = emitter.label(statement.name), emitter.origins.get(statement.name, ())
    held = type_name(_scope(emitter, None), statement.value.dtype, True)
    emitter.writer.line(f"{held} {name}[number(parts)];  // {statement.name}", origin)
    with _each_part(emitter) as scope:
        scope.origin = origin
        emitter.writer.line(f"{name}[part] = {as_many(scope, emit_value(scope, statement.value))};", origin)
    emitter.locals[statement.name] = Value(f"{name}[part]", True, statement.value.dtype)


def _nest_of_columns(emitter: KernelEmitter, nest: Nest) -> None:
    """Loops over rows inside the step: nothing is combined across lanes."""
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    *loops, last = nest.loops
    count = indexing.constant(last.size)
    # A long sum is a sum of short sums: the rounding errors stay as small as eager's.
    in_blocks = bool(totals) and (count is None or count > SHORT_SUM)
    for total in totals:
        _start_columns(emitter, total, "_total")
    for loop in loops:
        _open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    name, begin, end = last.variable.name, "0", c_index(last.size)
    if in_blocks:
        writer.line(f"for (i64 {name}_begin = 0; {name}_begin < {end}; {name}_begin += {SHORT_SUM}) {{")
        writer.depth += 1
        begin, end = f"{name}_begin", f"min_of({name}_begin + {SHORT_SUM}, {end})"
        for total in totals:
            _start_columns(emitter, total, "_short")
    _open_loop(writer, name, begin, end)
    with _each_part(emitter) as scope:
        for part in nest.body:
            if isinstance(part, Accumulate):
                stem = "_short" if in_blocks else "_total"
                # Lanes beyond the last column are never stored: no mask is needed.
                _combine(emitter, scope, part, f"{emitter.label(part.name)}{stem}[part]", "All{}")
            else:
                _statement(emitter, scope, part)
    _close(writer)
    if in_blocks:
        for part in totals:
            label, kind = emitter.label(part.name), KINDS[part.kind]
            combined = f"{label}_total[part] = {kind}::join({label}_total[part], {label}_short[part]);"
            writer.line(f"each_part(parts, [&](int part) STEP {{ {combined} }});")
        _close(writer)
    for _ in loops:
        _close(writer)
    for part in totals:
        place = ".place" if part.kind.startswith("arg") else ""
        text = f"{emitter.label(part.name)}_total[part]{place}"
        emitter.locals[part.name] = Value(text, True, torch.int64 if place else part.value.dtype)


def _start_columns(emitter: KernelEmitter, part: Accumulate, stem: str) -> None:
    name, origin = f"{emitter.label(part.name)}{stem}", emitter.origins.get(part.name, ())
    held, start = _held(emitter, part), _neutral(part)
    emitter.writer.line(
        f"{held} {name}[number(parts)];  each_part(parts, [&](int part) STEP {{ {name}[part] = {start}; }});"
        f"  // {part.name}",
        origin,
    )


def _held(emitter: KernelEmitter, part: Accumulate) -> str:
    """The type of a running total."""
    if part.kind.startswith("arg"):
        return f"Best<{C_TYPES[part.value.dtype]}, W>"
    return type_name(_scope(emitter, None), part.value.dtype, True)


def _neutral(part: Accumulate) -> str:
    """What a running total starts with."""
    return f"{KINDS[part.kind]}::start<{C_TYPES[part.value.dtype]}, W>()"


def _close(writer: SourceWriter) -> None:
    writer.depth -= 1
    writer.line("}")


def _open_loop(writer: SourceWriter, name: str, begin: str, end: str) -> None:
    writer.line(f"for (i64 {name} = {begin}; {name} < {end}; {name}++) {{")
    writer.depth += 1


def _nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Loops of which the last takes W lanes; totals are combined across the lanes at the end."""
    writer = emitter.writer
    if emitter.kernel.vector_variable is None:
        _serial_nest(emitter, nest)
        return
    *loops, last = nest.loops
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    parts = _unrolled(nest) if totals else 1
    for total in totals:
        _start(emitter, total, parts)
    if _chunked(emitter.kernel, nest):
        _parallel_nest(emitter, nest)
        return
    writer.line("{")
    writer.depth += 1
    for loop in loops:
        _open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    _vector_loop(emitter, nest, "0", c_index(last.size), parts, indexing.constant(last.size))
    for _ in loops:
        writer.depth -= 1
        writer.line("}")
    writer.depth -= 1
    writer.line("}")
    _finish(emitter, totals, parts)


def _serial_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Iterations one by one, in order: they may change the same element."""
    for loop in nest.loops:
        _open_loop(emitter.writer, loop.variable.name, "0", c_index(loop.size))
    scope = _scope(emitter, None, stored=_stored(nest.body))
    for part in nest.body:
        assert not isinstance(part, Accumulate)
        _statement(emitter, scope, part)
    for _ in nest.loops:
        _close(emitter.writer)


def _vector_loop(emitter: KernelEmitter, nest: Nest, begin: str, end: str, parts: int, count: int | None) -> None:
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
        scope = _scope(emitter, last.variable, shared=shared, stored=_stored(nest.body))
        for part in nest.body:
            if isinstance(part, Accumulate):
                _combine(emitter, scope, part, f"{emitter.label(part.name)}_total[part]")
            else:
                _statement(emitter, scope, part)
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


def _unrolled(nest: Nest) -> int:
    """How many totals are kept side by side, so that one addition need not wait for the last."""
    count = indexing.constant(nest.loops[-1].size)
    if count is not None and count < 2 * ALIGNED_SIZE:
        return 1
    return 4 if sum(cost(part.value) for part in nest.body) < 8 else 2


# --- statements ------------------------------------------------------------------------------------------------------


def _statement(emitter: KernelEmitter, scope: Scope, statement: Let | Store | Update) -> None:
    scope.origin = emitter.origins.get(statement.name if isinstance(statement, Let) else statement.buffer, ())
    value = emit_value(scope, statement.value)
    if isinstance(statement, Update):
        _update(emitter, scope, statement, value)
        return
    if isinstance(statement, Let):
        name = emitter.label(statement.name)
        emitter.writer.line(f"const auto {name} = {value.text};  // {statement.name}", scope.origin)
        emitter.locals[statement.name] = replace(value, text=name)
        scope.inner |= {statement.name} if scope.vector is not None else set()
        return
    _store(emitter, scope, statement, value)


def _update(emitter: KernelEmitter, scope: Scope, update: Update, value: Value) -> None:
    """``if (in range) buffer[place] = buffer[place] + value``; all lanes are neighbours of one place."""
    width, lanes, text = "1", "All{}", value.text
    if scope.vector is not None:
        width, lanes, text = "W", "lanes", as_many(scope, value)
    offset, conditions = emit_place(scope, update.place)
    address = f"{emitter.names.pointers[update.buffer]} + {offset}"
    if update.kind != "store":
        text = f"{KINDS[update.kind]}::join(load<{C_TYPES[value.dtype]}, {width}>({address}, {lanes}), {text})"
    condition = f"if ({' && '.join(conditions)}) " if conditions else ""
    emitter.writer.line(f"{condition}store({address}, {lanes}, {text});", scope.origin)
    scope.done.clear()


def _store(emitter: KernelEmitter, scope: Scope, store: Store, value: Value) -> None:
    pointer, offset = emitter.names.pointers[store.buffer], c_index(store.offset)
    # What was loaded from this buffer before may be old now.
    scope.done = {key: each for key, each in scope.done.items() if not _reads(key[0], store.buffer)}
    if scope.vector is None:
        emitter.writer.line(f"store({pointer} + {offset}, All{{}}, {value.text});", scope.origin)
        return
    text = as_many(scope, value)
    way = access(store.offset, (), scope.vector)
    if way == "contiguous":
        emitter.writer.line(f"store({pointer} + {offset}, lanes, {text});", scope.origin)
        return
    place = c_index(store.offset, {scope.vector: f"({scope.vector.name} + j)"})
    emitter.writer.line(f"scatter({pointer}, lanes, {text}, [&](i64 j) {{ return {place}; }});", scope.origin)


def _reads(body: Expr, buffer: str) -> bool:
    return any(getattr(node, "buffer", None) == buffer for node in walk(body))


def _start(emitter: KernelEmitter, part: Accumulate, count: int) -> None:
    name = f"{emitter.label(part.name)}_total"
    value = f"{{{', '.join([_neutral(part)] * count)}}}"
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"{_held(emitter, part)} {name}[{count}] = {value};  // {part.name}", origin)


def _combine(emitter: KernelEmitter, scope: Scope, part: Accumulate, total: str, lanes: str = "lanes") -> None:
    scope.origin = emitter.origins.get(part.name, ())
    text = as_many(scope, emit_value(scope, part.value))
    if part.kind.startswith("arg"):
        place = as_many(scope, emit_value(scope, IndexOf(part.place, torch.int64)))
        text = f"Best<{C_TYPES[part.value.dtype]}, W>{{{text}, {place}}}"
    emitter.writer.line(f"combine<{KINDS[part.kind]}>({total}, {lanes}, {text});", scope.origin)


def _finish(emitter: KernelEmitter, totals: Sequence[Accumulate], parts: int) -> None:
    """Side-by-side totals into one, then its lanes into one value."""
    for part in totals:
        kind, name = KINDS[part.kind], emitter.label(part.name)
        terms = [f"{name}_total[{at}]" for at in range(parts)]
        while len(terms) > 1:
            terms = [f"{kind}::join({one}, {two})" for one, two in zip(terms[::2], terms[1::2], strict=True)]
        place = ".place" if part.kind.startswith("arg") else ""
        emitter.writer.line(
            f"const auto {name} = across<{kind}, W>({terms[0]}){place};  // {part.name}",
            emitter.origins.get(part.name, ()),
        )
        emitter.locals[part.name] = Value(name, False, torch.int64 if place else part.value.dtype)


# --- long reductions to few values -----------------------------------------------------------------------------------


def _chunked(kernel: Kernel, nest: Nest) -> bool:
    """Whether a nest is cut in chunks that threads share: few outer iterations, and each of them long."""
    outer, inner = _trips(kernel.loops), _trips(nest.loops)
    return (
        outer is not None and outer <= 1 and inner is not None and inner >= LONG_REDUCTION
        and any(isinstance(part, Accumulate) for part in nest.body) and not kernel.scratch
    )  # fmt: skip


def _parallel_nest(emitter: KernelEmitter, nest: Nest) -> None:
    """Chunks of the first loop, each with totals of its own, joined in order: equal for any number of threads."""
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    parts = _unrolled(nest)
    first, *rest = nest.loops
    size = c_index(first.size)
    for part in totals:
        writer.line(f"{_held(emitter, part)} {emitter.label(part.name)}_chunk[{CHUNKS}];")
    writer.line("#pragma omp parallel for num_threads(context->threads)")
    with writer.block(f"for (int chunk = 0; chunk < {CHUNKS}; chunk++) {{"):
        for part in totals:
            _start(emitter, part, parts)
        writer.line(
            f"const i64 length = ({size} + {CHUNKS} - 1) / {CHUNKS}, begin = min_of(chunk * length, {size}),"
            f" end = min_of(begin + length, {size});"
        )
        if rest:
            writer.line(
                f"for (i64 {first.variable.name} = begin; {first.variable.name} < end; {first.variable.name}++) {{"
            )
            writer.depth += 1
            for loop in rest[:-1]:
                _open_loop(writer, loop.variable.name, "0", c_index(loop.size))
            _vector_loop(emitter, nest, "0", c_index(rest[-1].size), parts, indexing.constant(rest[-1].size))
            for _ in rest:
                writer.depth -= 1
                writer.line("}")
        else:
            _vector_loop(emitter, nest, "begin", "end", parts, None)
        for part in totals:
            name, kind = emitter.label(part.name), KINDS[part.kind]
            for at in range(1, parts):
                writer.line(f"{name}_total[0] = {kind}::join({name}_total[0], {name}_total[{at}]);")
            writer.line(f"{name}_chunk[chunk] = {name}_total[0];")
    for part in totals:
        name, kind = emitter.label(part.name), KINDS[part.kind]
        writer.line(
            f"for (int chunk = 0; chunk < {CHUNKS}; chunk++)"
            f" {name}_total[0] = {kind}::join({name}_total[0], {name}_chunk[chunk]);"
        )
    _finish(emitter, totals, 1)
