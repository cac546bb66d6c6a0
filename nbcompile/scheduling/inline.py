"""Inlining of small producers into the larger tensors that broadcast them.

    buf0: float32[64] = bias[i0] * 2.0
    buf1: float32[8, 64] = x[i0, i1] + buf0[i1]    ->   x[i0, i1] + bias[i1] * 2.0

Lowering realizes what a larger tensor broadcasts, so that a loop over rows
computes it once a row. Where there is no loop over rows (no reduction follows),
recomputing it is cheaper than a kernel and a buffer of its own.

In torch: torch/_inductor/ir.py (should_realize_on_reuse). Read next:
nbcompile/scheduling/fuse.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nbcompile.ir.buffer import Buffer, Extern, LoopBuffer, Pointwise, Program, Reduction, Scan, Scatter, views_in
from nbcompile.ir.expr import Expr, Load
from nbcompile.ir.index import Index, Symbol, constant, loop_variable, product, simplify
from nbcompile.ir.traversal import cost, loads, rebuild, substitute
from nbcompile.scheduling.dependencies import reads

MAX_INLINED_COST = 16
"""Cost of a body (ir/expr.py) up to which recomputing an element is cheaper than loading it."""
MAX_INLINED_LOADS = 3


def inline_small(program: Program) -> Program:
    """Inline cheap bodies of broadcast tensors into their readers."""
    # Outputs and operands of calls are stored in any case: their readers load them.
    needed = {view.buffer for view in views_in(program.outputs)}
    needed |= {name for buffer in program.buffers if isinstance(buffer, (Extern, Scatter)) for name in reads(buffer)}
    readers = _readers(program)
    inlined: dict[str, Pointwise] = {}
    from_reduction: set[str] = set()
    buffers: list[Buffer] = []
    for original in program.buffers:
        if not isinstance(original, LoopBuffer):
            buffers.append(original)
            continue
        # Producers come first in a program, so ``inlined`` holds bodies in which their own small
        # operands are inlined already.
        buffer = replace(
            original, body=with_inlined(original.body, inlined), from_nodes=nodes_with_inlined(original, inlined)
        )
        # A reduction and what follows it run in a kernel with rows, which computes the small value once for each row.
        if isinstance(buffer, (Reduction, Scan)) or any(name in from_reduction for name in reads(buffer)):
            from_reduction.add(buffer.name)
        elif (
            _is_small(buffer)
            and buffer.name not in needed
            and _always_spread(buffer, readers.get(buffer.name, ()))
            and not _is_overwritten(buffer, readers.get(buffer.name, ()))
        ):
            inlined[buffer.name] = buffer
            continue
        buffers.append(buffer)
    return replace(program, buffers=tuple(buffers))


def _is_small(buffer: LoopBuffer) -> bool:
    return (
        isinstance(buffer, Pointwise)
        and not buffer.writes_to
        and cost(buffer.body) <= MAX_INLINED_COST
        and sum(1 for _ in loads(buffer.body)) <= MAX_INLINED_LOADS
    )


def _is_overwritten(buffer: LoopBuffer, readers: Sequence[LoopBuffer]) -> bool:
    # x.div_(x[0] + 1): inlined, the loop would read the x[0] that its first iteration has overwritten.
    written = {reader.writes_to for reader in readers if isinstance(reader, Pointwise) and reader.writes_to}
    return bool(written) and not written.isdisjoint(reads(buffer))


def _readers(program: Program) -> dict[str, list[LoopBuffer]]:
    """The computed buffers that read each buffer."""
    found: dict[str, list[LoopBuffer]] = {}
    for buffer in program.buffers:
        if isinstance(buffer, LoopBuffer):
            for name in reads(buffer):
                found.setdefault(name, []).append(buffer)
    return found


def _always_spread(buffer: LoopBuffer, readers: Sequence[LoopBuffer]) -> bool:
    count = constant(product(buffer.layout.size))
    for reader in readers:
        reduced = reader.reduced if isinstance(reader, Reduction) else ()
        points = constant(product((*reader.layout.size, *reduced)))
        if count is None or points is None or points <= count:
            return False
    return True


def with_inlined(body: Expr, inlined: dict[str, Pointwise]) -> Expr:
    """A body with the bodies of some of its operands substituted for their loads."""
    if not any(load.buffer in inlined for load in loads(body)):
        return body
    if isinstance(body, Load) and body.buffer in inlined:
        whole: Load = body
        if whole.gathers:
            # The index of a gather may load a value that is inlined, too.
            whole = replace(
                whole, gathers=tuple(replace(g, value=with_inlined(g.value, inlined)) for g in whole.gathers)
            )
        source = inlined[whole.buffer]
        mapping: dict[Symbol, Index] = {loop_variable(at): position for at, position in enumerate(whole.index)}
        return substitute(source.body, mapping, whole.gathers, lambda index: simplify(index, {}))
    return rebuild(body, lambda part: with_inlined(part, inlined))


def nodes_with_inlined(buffer: LoopBuffer, inlined: dict[str, Pointwise]) -> tuple[str, ...]:
    """The fx nodes that a buffer computes, those of its inlined operands included."""
    parts = [inlined[name].from_nodes for name in reads(buffer) if name in inlined]
    return tuple(dict.fromkeys([*(name for part in parts for name in part), *buffer.from_nodes]))
