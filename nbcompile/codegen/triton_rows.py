"""Triton kernels with one program per row: short rows stay in registers, long ones are looped over.

    for i0 < 64:  for r0 < 1000: buf0 = sum(x[1000*i0 + r0])      program i0: 1024 elements, of which 1000 exist
    for i0 < 64:  for r0 < 50257: the same                        program i0: a loop over blocks of 4096 elements

In torch: torch/_inductor/codegen/triton.py (persistent_reduction). Read next:
nbcompile/codegen/triton_reductions.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbcompile.codegen import triton_online
from nbcompile.codegen.kernel_analysis import flatten_statements, stored_buffers
from nbcompile.codegen.machine_model import LONG_ROW, LONG_ROW_BLOCK, MAX_WARPS, THREAD_ELEMENTS, TRITON_BLOCK
from nbcompile.codegen.printers import python_index
from nbcompile.codegen.triton_blocks import begin_block, end_block, per_thread, split
from nbcompile.codegen.triton_loads import fit_early, load_early
from nbcompile.codegen.triton_reductions import (
    accumulator_name,
    declare_accumulators,
    emit_combine,
    reduce_block,
    reduce_row,
    scan_block,
    scan_next_block,
)
from nbcompile.codegen.triton_values import NoTriton, TritonEmitter, assign, emit_statement, index_text, value_text
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Load
from nbcompile.ir.kernel import MAX_REGISTER_ROW, Accumulate, Carry, Kernel, Nest, Statement
from nbcompile.ir.traversal import walk


def rows(emitter: TritonEmitter) -> str:
    """Emit a kernel with one program per outer iteration; return the number of programs."""
    kernel, writer = emitter.kernel, emitter.writer
    writer.line(f"row = {emitter.program}{emitter.int64_cast}")
    split(writer, "row", kernel.loops)
    persistent = _is_persistent(kernel)
    if kernel.scratch and not persistent:
        raise NoTriton("a scratch row that is too long for registers")
    # Outside of nests there is one value per row: one register in each thread.
    load_early(emitter, kernel.body, 1)
    written: set[str] = set()
    done: dict[int, Callable[[], None]] = {}
    for at, statement in enumerate(kernel.body):
        if written & set(_read(statement)):
            # Another thread of the program may have stored a value that is loaded here.
            writer.line("tl.debug_barrier()")
            written.clear()
        written |= stored_buffers([statement]) & set(kernel.writes)
        if not isinstance(statement, Nest):
            emit_statement(emitter, statement)
        elif persistent:
            _emit_persistent_nest(emitter, statement, kernel.body[at + 1 :])
        else:
            _emit_looped(emitter, at, done)
    return index_text(indexing.product([loop.size for loop in kernel.loops]))


def _is_persistent(kernel: Kernel) -> bool:
    """True if rows are in registers: loaded once for all passes. A longer one is loaded again by each pass."""
    nests = (part for part in kernel.body if isinstance(part, Nest))
    lengths = [indexing.constant(indexing.product([loop.size for loop in nest.loops])) for nest in nests]
    return all(length is not None and length <= MAX_REGISTER_ROW for length in lengths)


def _emit_looped(emitter: TritonEmitter, at: int, done: dict[int, Callable[[], None]]) -> None:
    """Emit the nest at a position as a loop, or only the end of its reduction, if another nest's loop computes it."""
    body = emitter.kernel.body
    nest = body[at]
    assert isinstance(nest, Nest)
    if id(nest) in done:
        done[id(nest)]()
        return
    second = triton_online.find(body, at)
    later = [part for part in body[at + 1 :] if second is None or part is not second.nest]
    emitter.read_later = frozenset(name for part in later for name in _read(part))
    finish = _emit_looped_nest(emitter, nest, second)
    if second is not None:
        done[id(second.nest)] = finish


def _read(statement: Statement) -> Iterator[str]:
    """Iterate over the buffers that a statement loads from."""
    for part in flatten_statements([statement]):
        if not isinstance(part, Nest):
            yield from (node.buffer for node in walk(part.value) if isinstance(node, Load))


def _emit_persistent_nest(emitter: TritonEmitter, nest: Nest, later: Sequence[Statement]) -> None:
    writer = emitter.writer
    length = indexing.product([loop.size for loop in nest.loops])
    # The next power of two, as ``tl.arange`` accepts no other length; the rest is masked.
    block = 1 << max(int(length) - 1, 0).bit_length()
    emitter.warps = max(emitter.warps, min(block // THREAD_ELEMENTS // 32, MAX_WARPS))
    writer.line(f"inner = tl.arange(0, {block}){emitter.int64_cast}")
    begin_block(emitter, "inner", length, block, nest.loops)
    # Loads of later passes over the same row are emitted now, if they fit: all latencies overlap.
    nests = [nest, *(other for other in later if isinstance(other, Nest) and other.loops == nest.loops)]
    of_all, share = [part for other in nests for part in other.body], per_thread(emitter, block)
    load_early(emitter, of_all if fit_early(of_all, share) else nest.body, share)
    finished = {}
    for part in nest.body:
        if isinstance(part, Accumulate):
            finished[part.name] = reduce_row(emitter, part)
        elif isinstance(part, Carry):
            scan_block(emitter, part)
        else:
            emit_statement(emitter, part)
    emitter.locals |= finished
    end_block(emitter)


def _emit_looped_nest(
    emitter: TritonEmitter, nest: Nest, second: triton_online.Second | None = None
) -> Callable[[], None]:
    """Emit a loop over blocks; return a function that emits the second reduction's result, if the loop computes one."""
    writer = emitter.writer
    accumulators = [part for part in nest.body if isinstance(part, Accumulate)]
    length = indexing.product([loop.size for loop in nest.loops])
    block = TRITON_BLOCK
    # A longer block means fewer iterations, each of which waits for its loads.
    if (indexing.constant(length) or 0) >= LONG_ROW:
        block = LONG_ROW_BLOCK
        emitter.warps = max(emitter.warps, min(block // THREAD_ELEMENTS // 32, MAX_WARPS))
    for accumulator in nest.body:
        if isinstance(accumulator, (Accumulate, Carry)):
            declare_accumulators(emitter, accumulator, str(block))
    if second is not None:
        triton_online.declare(emitter, second, block)
    emitter.trip_counts.append(f"({python_index(length)} + {block - 1}) // {block}")
    writer.line(f"for begin in range(0, {index_text(length)}, {block}):")
    writer.depth += 2
    writer.line(f"inner = begin + tl.arange(0, {block}){emitter.int64_cast}")
    begin_block(emitter, "inner", length, block, nest.loops)
    before, loaded = dict(emitter.locals), emitter.loaded
    emitter.loaded = {}
    load_early(emitter, nest.body, per_thread(emitter, block))
    for part in nest.body:
        if isinstance(part, Accumulate) and second is not None:
            triton_online.combine(emitter, part, second, assign(emitter, value_text(emitter, part.value)), block)
        elif isinstance(part, Accumulate):
            emit_combine(emitter, part, emitter.mask)
        elif isinstance(part, Carry):
            scan_next_block(emitter, part, str(block), f"tl.arange(0, {block}) == {block - 1}")
        else:
            emit_statement(emitter, part)
    # Names of the body have values of one block of the row; after the loop only the accumulators are valid.
    emitter.locals, emitter.loaded = before, loaded
    end_block(emitter)
    writer.depth -= 2
    for part in accumulators:
        emitter.locals[part.name] = reduce_block(emitter, part)

    def finish() -> None:
        if second is not None:
            triton_online.finish(emitter, accumulator_name(accumulators[0]), second, block)

    return finish
