"""Column (outer) reduction: lanes are adjacent columns, and each lane reduces its own.

    for (i64 first = 0; first < 4096; first += PARTS*W) {
      const auto step = [&](auto parts, auto lanes, i64 start) STEP {
        F32 v0_acc[count_parts(parts)]; ...
        for (i64 r0 = 0; r0 < 512; r0++)
          for_each_part(parts, [&](int part) STEP { combine<Sum>(v0_acc[part], ...); });

In torch: torch/_inductor/codegen/cpp.py (vectorised along an outer loop). Read next:
nbcompile/codegen/kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from nbcompile.codegen.accumulators import accumulator_type, bind_scan_result, combiner, emit_combine, identity_text
from nbcompile.codegen.emitter import KernelEmitter, close_loop, open_loop, outer_loops, scope_of
from nbcompile.codegen.kernel_analysis import stored_buffers
from nbcompile.codegen.machine_model import (
    BLOCKED_SUM_LENGTH,
    COLUMN_UNROLL,
    COLUMN_UNROLL_COSTLY,
    COLUMN_UNROLL_SIMPLE,
    COSTLY_BODY_COST,
    SIMPLE_ACCUMULATORS,
    SIMPLE_BODY_COST,
)
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.vector_expr import emit_value
from nbcompile.codegen.vector_scope import Scope, Value, as_vector, merge_origins, type_name
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Let, Nest, Store, Update
from nbcompile.ir.traversal import cost


def emit_column_reduction(emitter: KernelEmitter) -> None:
    """Emit a column reduction: one step reduces several vectors of columns over all rows.

            columns   0..W-1   W..2W-1   ...  (PARTS vectors)
        row 0           |         |
        row 1           |         |           independent chains of additions, and whole cache lines
        ...             v         v

    A single vector would wait for each addition before the next, and would read one cache line of each row.
    """
    kernel, writer = emitter.kernel, emitter.writer
    *loops, last = kernel.loops
    size, count = c_index(last.size), indexing.constant(last.size)
    writer.line(f"constexpr int PARTS = {_unroll_factor(kernel, count)};")
    with outer_loops(emitter, loops, f"for (i64 first = 0; first < {size}; first += PARTS*W) {{"):
        with writer.block("const auto step = [&](auto parts, auto lanes, i64 start) STEP {", "};"):
            for statement in kernel.body:
                if isinstance(statement, Nest):
                    _emit_row_loops(emitter, statement)
                else:
                    _emit_column_value(emitter, statement)
        # One lambda, two instances: whole groups of PARTS vectors without masks, and single masked
        # vectors for the rest.
        writer.line(f"if (first + PARTS*W <= {size}) step(Parts<PARTS>{{}}, All{{}}, first);")
        writer.line(
            f"else for (i64 start = first; start < {size}; start += W)"
            f" step(Parts<1>{{}}, First{{{size} - start}}, start);"
        )


def _unroll_factor(kernel: Kernel, count: int | None) -> str:
    """Number of vectors per step: fewer where each needs many registers, never more than a row has."""
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    accumulators = max(sum(isinstance(part, (Accumulate, Carry)) for part in nest.body) for nest in nests)
    body_cost = max(sum(cost(part.value) for part in nest.body) for nest in nests)
    has_indices = any(
        isinstance(part, (Accumulate, Carry)) and part.kind.startswith("arg") for nest in nests for part in nest.body
    )
    # Several vectors of accumulators hide the latency of an addition, until the registers are used up (16 with
    # AVX2) and accumulators spill. An arg reduction carries an index with each value.
    if has_indices or body_cost > COSTLY_BODY_COST:
        limit = COLUMN_UNROLL_COSTLY
    elif accumulators <= SIMPLE_ACCUMULATORS and body_cost <= SIMPLE_BODY_COST:
        limit = COLUMN_UNROLL_SIMPLE
    else:
        limit = COLUMN_UNROLL
    # Only the C++ compiler knows W, so it computes the factor.
    return str(limit) if count is None else f"unroll_factor({count}, W, {limit})"


@contextmanager
def _for_each_part(emitter: KernelEmitter) -> Iterator[Scope]:
    """Emit a loop over the vectors of a step; loop-invariant values are hoisted out of it."""
    writer, last = emitter.writer, emitter.kernel.loops[-1].variable
    before = dict(emitter.locals)
    # Invariant values are emitted together with the loop's body, and inserted before the loop afterwards.
    shared_at, shared = writer.here(), SourceWriter(depth=writer.depth)
    with writer.block("for_each_part(parts, [&](int part) STEP {", "});"):
        writer.line(f"const i64 {last.name} = start + part*W;")
        yield scope_of(emitter, last, shared=shared, stored=stored_buffers(emitter.kernel.body))
    writer.insert(shared_at, shared)
    emitter.locals.clear()
    emitter.locals.update(before)


def _emit_column_value(emitter: KernelEmitter, statement: Let | Store | Update) -> None:
    """Emit a value per column outside of the row loops: a local array, or a store."""
    if isinstance(statement, (Store, Update)):
        with _for_each_part(emitter) as scope:
            emit_statement(emitter, scope, statement)
        return
    name, origin = emitter.label(statement.name), emitter.origins.get(statement.name, ())
    cpp_type = type_name(scope_of(emitter, None), statement.value.dtype, True)
    emitter.writer.line(f"{cpp_type} {name}[count_parts(parts)];  // {statement.name}", origin)
    with _for_each_part(emitter) as scope:
        scope.origin = origin
        value = emit_value(scope, statement.value)
        emitter.writer.line(f"{name}[part] = {as_vector(scope, value)};", merge_origins(value.origin, origin))
    # A column's value is used after the loop over the parts: it is an element of an array with one for each part.
    emitter.locals[statement.name] = Value(f"{name}[part]", True, statement.value.dtype)


def _emit_row_loops(emitter: KernelEmitter, nest: Nest) -> None:
    """Emit the loops over rows of one step. Lanes are independent: there is no horizontal reduction."""
    writer = emitter.writer
    accumulators = [part for part in nest.body if isinstance(part, (Accumulate, Carry))]
    *loops, last = nest.loops
    count = indexing.constant(last.size)
    # Blocked summation: a long sum is a sum of short ones, which bounds the rounding error as in eager mode. A scan has
    # eager's order, row by row: in another order, a partial result of (-max, ..., max, max) may overflow.
    is_long = count is None or count > BLOCKED_SUM_LENGTH
    blocked = [part for part in accumulators if is_long and isinstance(part, Accumulate)]
    for accumulator in accumulators:
        for stem in ("_acc", "_partial") if accumulator in blocked else ("_acc",):
            _declare_accumulators(emitter, accumulator, stem)
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    name, begin, end = last.variable.name, "0", c_index(last.size)
    if blocked:
        writer.line(f"for (i64 {name}_begin = 0; {name}_begin < {end}; {name}_begin += {BLOCKED_SUM_LENGTH}) {{")
        writer.depth += 1
        begin, end = f"{name}_begin", f"min_of({name}_begin + {BLOCKED_SUM_LENGTH}, {end})"
    open_loop(writer, name, begin, end)
    with _for_each_part(emitter) as scope:
        _emit_row(emitter, scope, nest, blocked)
    close_loop(writer)
    for part in blocked:
        _fold_partial(emitter, part)
    if blocked:
        close_loop(writer)
    for _ in loops:
        close_loop(writer)
    _bind_results(emitter, accumulators, blocked)


def _emit_row(emitter: KernelEmitter, scope: Scope, nest: Nest, blocked: Sequence[Accumulate]) -> None:
    """Emit the updates of the columns' accumulators by one row."""
    for part in nest.body:
        if isinstance(part, (Accumulate, Carry)):
            label, stem = emitter.label(part.name), "_partial" if part in blocked else "_acc"
            # Lanes beyond the last column are never stored: no mask is needed.
            emit_combine(emitter, scope, part, f"{label}{stem}[part]", "All{}")
            if isinstance(part, Carry):
                bind_scan_result(emitter, scope, part, f"{label}_acc[part]")
        else:
            emit_statement(emitter, scope, part)


def _fold_partial(emitter: KernelEmitter, part: Accumulate) -> None:
    """Emit the addition of a block's short sum to the long one."""
    label, element = emitter.label(part.name), C_TYPES[part.value.dtype]
    folded = f"fold<{combiner(part)}, {element}, W>({label}_acc[part], {label}_partial[part]);"
    emitter.writer.line(f"for_each_part(parts, [&](int part) STEP {{ {folded} }});", emitter.origins.get(part.name, ()))


def _bind_results(
    emitter: KernelEmitter, accumulators: Sequence[Accumulate | Carry], blocked: Sequence[Accumulate]
) -> None:
    """Bind the results of reductions to their names; a scan has stored its results already."""
    for part in accumulators:
        if isinstance(part, Carry):
            continue
        label, dtype = emitter.label(part.name), part.value.dtype
        text = f"{label}_acc[part]"
        if part in blocked:
            text = f"{combiner(part)}::join({text}, {label}_partial[part])"
        if part.kind.startswith("arg"):
            text, dtype = f"cast<i64>({text}.index)", torch.int64
        emitter.locals[part.name] = Value(text, True, dtype)


def _declare_accumulators(emitter: KernelEmitter, part: Accumulate | Carry, stem: str) -> None:
    name, origin = f"{emitter.label(part.name)}{stem}", emitter.origins.get(part.name, ())
    cpp_type, identity = accumulator_type(emitter, part), identity_text(part)
    emitter.writer.line(
        f"{cpp_type} {name}[count_parts(parts)];"
        f"  for_each_part(parts, [&](int part) STEP {{ {name}[part] = {identity}; }});  // {part.name}",
        origin,
    )
