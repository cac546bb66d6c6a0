"""A reduction down columns: lanes are neighbouring columns, and each lane walks down its own.

    for (i64 first = 0; first < 4096; first += PARTS*W) {
      const auto step = [&](auto parts, auto lanes, i64 start) STEP {
        F32 v0_total[number(parts)]; ...
        for (i64 r0 = 0; r0 < 512; r0++) each_part(parts, [&](int part) STEP { combine<Sum>(v0_total[part], ...); });

In torch: torch/_inductor/codegen/cpp.py (vectorised along an outer loop). Read next:
nbcompile/codegen/kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nbcompile.codegen.emitter import KernelEmitter, close_loop, open_loop, outer_loops, scope_of
from nbcompile.codegen.facts import stored
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.totals import combine, held_type, kind_of, name_running, neutral
from nbcompile.codegen.values import Scope, Value, as_many, emit_value, joined, type_name
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import cost
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Let, Nest, Store, Update

SHORT_SUM = 64
"""So many values are added one after the other before their sum joins the total."""


def columns(emitter: KernelEmitter) -> None:
    """A reduction down columns: a step takes several vectors of columns side by side down all rows.

    One vector would wait for each addition to end before the next; and of each
    row it would read one cache line, where several are read at the cost of one.
    """
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    size, count = c_index(last.size), indexing.constant(last.size)
    writer.line(f"constexpr int PARTS = {_side_by_side(kernel, count)};")
    with outer_loops(emitter, loops, f"for (i64 first = 0; first < {size}; first += PARTS*W) {{"):
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
    totals = max(sum(isinstance(part, (Accumulate, Carry)) for part in nest.body) for nest in nests)
    heavy = max(sum(cost(part.value) for part in nest.body) for nest in nests)
    arguments = any(
        isinstance(part, (Accumulate, Carry)) and part.kind.startswith("arg") for nest in nests for part in nest.body
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
        yield scope_of(emitter, last, shared=shared, stored=stored(emitter.kernel.body))
    writer.insert(shared_at, shared)
    emitter.locals.clear()
    emitter.locals.update(before)


def _column_value(emitter: KernelEmitter, statement: Let | Store | Update) -> None:
    """A value of each column, kept for what follows, or its way into memory."""
    if isinstance(statement, (Store, Update)):
        with _each_part(emitter) as scope:
            emit_statement(emitter, scope, statement)
        return
    name, origin = emitter.label(statement.name), emitter.origins.get(statement.name, ())
    held = type_name(scope_of(emitter, None), statement.value.dtype, True)
    emitter.writer.line(f"{held} {name}[number(parts)];  // {statement.name}", origin)
    with _each_part(emitter) as scope:
        scope.origin = origin
        value = emit_value(scope, statement.value)
        emitter.writer.line(f"{name}[part] = {as_many(scope, value)};", joined(value.origin, origin))
    emitter.locals[statement.name] = Value(f"{name}[part]", True, statement.value.dtype)


def _nest_of_columns(emitter: KernelEmitter, nest: Nest) -> None:
    """Loops over rows inside the step: nothing is combined across lanes."""
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, (Accumulate, Carry))]
    *loops, last = nest.loops
    count = indexing.constant(last.size)
    # A long sum is a sum of short sums: the rounding errors stay as small as eager's.
    in_blocks = bool(totals) and (count is None or count > SHORT_SUM)
    for total in totals:
        for stem in ("_total", "_short") if in_blocks else ("_total",):
            _start_columns(emitter, total, stem)
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    name, begin, end = last.variable.name, "0", c_index(last.size)
    if in_blocks:
        writer.line(f"for (i64 {name}_begin = 0; {name}_begin < {end}; {name}_begin += {SHORT_SUM}) {{")
        writer.depth += 1
        begin, end = f"{name}_begin", f"min_of({name}_begin + {SHORT_SUM}, {end})"
    open_loop(writer, name, begin, end)
    with _each_part(emitter) as scope:
        for part in nest.body:
            if isinstance(part, (Accumulate, Carry)):
                label, stem = emitter.label(part.name), "_short" if in_blocks else "_total"
                # Lanes beyond the last column are never stored: no mask is needed.
                combine(emitter, scope, part, f"{label}{stem}[part]", "All{}")
                if isinstance(part, Carry):
                    name_running(emitter, scope, part, _so_far(part, label, in_blocks))
            else:
                emit_statement(emitter, scope, part)
    close_loop(writer)
    if in_blocks:
        for part in totals:
            label, element = emitter.label(part.name), C_TYPES[part.value.dtype]
            folded = f"fold<{kind_of(part)}, {element}, W>({label}_total[part], {label}_short[part]);"
            origin = emitter.origins.get(part.name, ())
            writer.line(f"each_part(parts, [&](int part) STEP {{ {folded} }});", origin)
        close_loop(writer)
    for _ in loops:
        close_loop(writer)
    for part in totals:
        if isinstance(part, Carry):
            continue
        text, dtype = _so_far(part, emitter.label(part.name), in_blocks), part.value.dtype
        if part.kind.startswith("arg"):
            text, dtype = f"cast<i64>({text}.place)", torch.int64
        emitter.locals[part.name] = Value(text, True, dtype)


def _so_far(part: Accumulate | Carry, label: str, in_blocks: bool) -> str:
    return f"{kind_of(part)}::join({label}_total[part], {label}_short[part])" if in_blocks else f"{label}_total[part]"


def _start_columns(emitter: KernelEmitter, part: Accumulate | Carry, stem: str) -> None:
    name, origin = f"{emitter.label(part.name)}{stem}", emitter.origins.get(part.name, ())
    held, start = held_type(emitter, part), neutral(part)
    emitter.writer.line(
        f"{held} {name}[number(parts)];  each_part(parts, [&](int part) STEP {{ {name}[part] = {start}; }});"
        f"  // {part.name}",
        origin,
    )
