"""What is known while one C++ kernel is written, and the loops that everything stands in.

    #pragma omp parallel for collapse(2) num_threads(context->threads)
    for (i64 i0 = 0; i0 < 8; i0++) {
      for (i64 i1 = 0; i1 < 64; i1++) {

In torch: torch/_inductor/codegen/cpp.py (CppKernelProxy, LoopNest). Read next:
nbcompile/codegen/statements.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import sympy
import torch

from nbcompile.codegen.facts import Streamed, amount_of_work, trip_count
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.values import ALIGNED_SIZE, Names, Scope, Value
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Load
from nbcompile.ir.index import Symbol
from nbcompile.ir.kernel import Kernel, Loop, Nest, Schedule, Scratch

SERIAL_WORK = 32768
"""Below so many additions a second thread costs more than it gives (a barrier takes some microseconds)."""
STACK_BYTES = 1 << 17
"""Scratch rows up to this size live on the stack."""


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
    """As :func:`facts.own_work` tells."""
    streamed: Mapping[str, Streamed] = field(default_factory=dict)
    """As :func:`facts.streamed` tells."""
    places: torch.dtype = torch.int64
    """Of the places of largest and smallest elements: as wide as lanes are."""
    turned: dict[str, str] = field(default_factory=dict)
    """Where stores to a buffer go first, to be made together (squares.py, panels.py)."""
    turned_loads: dict[Load, str] = field(default_factory=dict)
    """Where loads of an inner loop stand that were made ahead (panels.py)."""

    def label(self, name: str) -> str:
        """The C++ name of a local."""
        return self.labels.setdefault(name, f"v{len(self.labels)}")


def is_large(emitter: KernelEmitter, buffer: str) -> str:
    """The condition, in C++, under which stores to a buffer go past the caches."""
    large = emitter.streamed.get(buffer)
    return "false" if large is None else large.is_large(emitter.names.pointers[buffer])


def scope_of(emitter: KernelEmitter, vector: Symbol | None, **more: object) -> Scope:
    """Where values are computed now, in this kernel."""
    return Scope(emitter.writer, emitter.names, vector, emitter.locals, **more)  # type: ignore[arg-type]


@contextmanager
def outer_loops(
    emitter: KernelEmitter, loops: Sequence[Loop], *extra: str, rooms: Sequence[Scratch] = ()
) -> Iterator[None]:
    """Parallel loops; ``extra`` are headers of more loops that are collapsed with them, ``rooms`` more memory."""
    writer = emitter.writer
    headers = [
        f"for (i64 {loop.variable.name} = 0; {loop.variable.name} < {c_index(loop.size)}; {loop.variable.name}++) {{"
        for loop in loops
    ]
    headers += extra
    region, shared = _pragmas(emitter.kernel, loops, len(headers), bool(extra))
    rows = [scratch for scratch in (*emitter.kernel.scratch, *rooms) if not _on_stack(scratch)]
    # Each thread has rows of its own and ends its own stream, so the loops stand inside the parallel region.
    own = bool(rows or emitter.streamed)
    if own:
        if region:
            writer.line(f"#pragma omp parallel{region}")
        writer.line("{")
        writer.depth += 1
        for scratch in rows:
            _row_of_a_thread(emitter, scratch)
    if region:
        writer.line(f"#pragma omp for{shared}" if own else f"#pragma omp parallel for{shared}{region}")
    for header in headers or ["{"]:
        writer.line(header)
        writer.depth += 1
    yield
    for _ in headers or ["{"]:
        close_loop(writer)
    if emitter.streamed:
        writer.line("end_of_stream();")
    if own:
        close_loop(writer)


def _pragmas(kernel: Kernel, loops: Sequence[Loop], count: int, blocks: bool) -> tuple[str, str]:
    """What is said of the parallel region, and of the loops in it; nothing, where one thread does it all."""
    work, trips = amount_of_work(kernel), trip_count(loops)
    if not count or (work is not None and work < SERIAL_WORK) or (trips is not None and trips <= 1 and not blocks):
        return "", ""
    region = " num_threads(context->threads)"
    if work is None:
        amount = indexing.product([loop.size for loop in kernel.loops])
        inner = [indexing.product([loop.size for loop in each.loops]) for each in kernel.body if isinstance(each, Nest)]
        region += f" if ({c_index(amount * sympy.Add(*inner) if inner else amount)} > {SERIAL_WORK // 4})"
    return region, f" collapse({count})" if count > 1 else ""


def open_loop(writer: SourceWriter, name: str, begin: str, end: str) -> None:
    """Begin ``for begin <= name < end``."""
    writer.line(f"for (i64 {name} = {begin}; {name} < {end}; {name}++) {{")
    writer.depth += 1


def close_loop(writer: SourceWriter) -> None:
    """End the loop opened last."""
    writer.depth -= 1
    writer.line("}")


def rows_on_stack(emitter: KernelEmitter, rows: Sequence[Scratch]) -> None:
    """Small rows of one outer iteration."""
    for scratch in filter(_on_stack, rows):
        name, element = emitter.names.pointers[scratch.name], C_TYPES[scratch.dtype]
        length = -(-max(indexing.constant(scratch.size) or 0, 1) // ALIGNED_SIZE) * ALIGNED_SIZE
        origin = emitter.origins.get(scratch.name, ())
        emitter.writer.line(f"alignas(64) {element} {name}[{length}];  // {scratch.name}", origin)


def _on_stack(scratch: Scratch) -> bool:
    elements = indexing.constant(scratch.size)
    return elements is not None and elements * scratch.dtype.itemsize <= STACK_BYTES


def _row_of_a_thread(emitter: KernelEmitter, scratch: Scratch) -> None:
    """A row that is large, or of symbolic size: each outer iteration of a thread uses it again."""
    name, element = emitter.names.pointers[scratch.name], C_TYPES[scratch.dtype]
    origin = emitter.origins.get(scratch.name, ())
    emitter.writer.line(f"Row<{element}> {name}_memory({c_index(scratch.size)});  // {scratch.name}", origin)
    emitter.writer.line(f"{element} *const {name} = {name}_memory.start;", origin)
