"""State of the C++ generator within one kernel, and the parallel outer loops.

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

from nbcompile.codegen.kernel_analysis import NonTemporalStore, estimate_work, trip_count
from nbcompile.codegen.machine_model import ALIGNED_SIZE, SERIAL_WORK, STACK_BYTES
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.vector_scope import KernelNames, Scope, Value
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Load
from nbcompile.ir.index import Symbol
from nbcompile.ir.kernel import Kernel, Loop, Nest, Schedule, Scratch


@dataclass(slots=True)
class KernelEmitter:
    """State of the generator within one kernel."""

    kernel: Kernel
    schedule: Schedule
    writer: SourceWriter
    names: KernelNames
    locals: dict[str, Value]
    """Scalars (vectors, inside a vectorised outer loop), by name in the IR."""
    labels: dict[str, str]
    """C++ names of locals, numbered, so that equal kernels have equal text and are compiled once."""
    origins: dict[str, tuple[str, ...]]
    """fx nodes of each name: :func:`kernel_analysis.buffer_origins`."""
    non_temporal: Mapping[str, NonTemporalStore] = field(default_factory=dict)
    """Buffers with non-temporal stores: :func:`kernel_analysis.non_temporal_stores`."""
    index_dtype: torch.dtype = torch.int64
    """Type of the indices of argmax and argmin: as wide as the kernel's lanes."""
    transposed_stores: dict[str, str] = field(default_factory=dict)
    """Address in a tile or panel to which a store is redirected, by buffer (transpose_tiles.py, packed_panels.py)."""
    packed_loads: dict[Load, str] = field(default_factory=dict)
    """Address within a panel to which a load is redirected (packed_panels.py)."""

    def label(self, name: str) -> str:
        """The C++ name of a local."""
        return self.labels.setdefault(name, f"v{len(self.labels)}")


def is_large(emitter: KernelEmitter, buffer: str) -> str:
    """C++ condition under which stores to a buffer are non-temporal."""
    large = emitter.non_temporal.get(buffer)
    return "false" if large is None else large.is_large(emitter.names.pointers[buffer])


def scope_of(emitter: KernelEmitter, vector: Symbol | None, **more: object) -> Scope:
    """Scope for computing values in this kernel."""
    return Scope(emitter.writer, emitter.names, vector, emitter.locals, **more)  # type: ignore[arg-type]


def _loop_header(loop: Loop) -> str:
    variable = loop.variable.name
    return f"for (i64 {variable} = 0; {variable} < {c_index(loop.size)}; {variable}++) {{"


@contextmanager
def outer_loops(
    emitter: KernelEmitter, loops: Sequence[Loop], *extra: str, buffers: Sequence[Scratch] = ()
) -> Iterator[None]:
    """Emit the parallel loops; ``extra`` are headers of loops to collapse with them, ``buffers`` scratch memory."""
    writer = emitter.writer
    headers = [*map(_loop_header, loops), *extra]
    region, shared = _pragmas(emitter.kernel, loops, len(headers), bool(extra))
    # The two forms, without and with memory of each thread:
    #     #pragma omp parallel for              #pragma omp parallel
    #     for (...) { ... }                     { Row<f32> row0_memory(n);
    #                                             #pragma omp for
    #                                             for (...) { ... }
    #                                             nt_store_fence(); }
    rows = [scratch for scratch in (*emitter.kernel.scratch, *buffers) if not _fits_on_stack(scratch)]
    # Each thread has its own scratch buffers and its own fence, so the loops are inside of the parallel region.
    has_region = bool(rows or emitter.non_temporal)
    if has_region:
        if region:
            writer.line(f"#pragma omp parallel{region}")
        writer.line("{")
        writer.depth += 1
        for scratch in rows:
            _declare_thread_row(emitter, scratch)
    if region:
        writer.line(f"#pragma omp for{shared}" if has_region else f"#pragma omp parallel for{shared}{region}")
    for header in headers or ["{"]:
        writer.line(header)
        writer.depth += 1
    yield
    for _ in headers or ["{"]:
        close_loop(writer)
    if emitter.non_temporal:
        # Non-temporal stores are weakly ordered: without a fence, another thread might not see them after the region.
        writer.line("nt_store_fence();")
    if has_region:
        close_loop(writer)


def _pragmas(kernel: Kernel, loops: Sequence[Loop], count: int, blocks: bool) -> tuple[str, str]:
    """OpenMP clauses of the parallel region and of its loops; empty for a kernel that one thread runs."""
    work, trips = estimate_work(kernel), trip_count(loops)
    if not count or (work is not None and work < SERIAL_WORK) or (trips is not None and trips <= 1 and not blocks):
        return "", ""
    region = " num_threads(context->threads)"
    if work is None:
        amount = indexing.product([loop.size for loop in kernel.loops])
        inner = [indexing.product([loop.size for loop in nest.loops]) for nest in kernel.body if isinstance(nest, Nest)]
        # This counts iterations, not additions: four additions are assumed for each.
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


def declare_stack_rows(emitter: KernelEmitter, rows: Sequence[Scratch]) -> None:
    """Declare the small scratch buffers of one outer iteration, on the stack."""
    for scratch in filter(_fits_on_stack, rows):
        name, element = emitter.names.pointers[scratch.name], C_TYPES[scratch.dtype]
        # Padded to whole vectors of any W, so that accesses to a whole row need no mask.
        length = -(-max(indexing.constant(scratch.size) or 0, 1) // ALIGNED_SIZE) * ALIGNED_SIZE
        origin = emitter.origins.get(scratch.name, ())
        emitter.writer.line(f"alignas(64) {element} {name}[{length}];  // {scratch.name}", origin)


def _fits_on_stack(scratch: Scratch) -> bool:
    elements = indexing.constant(scratch.size)
    return elements is not None and elements * scratch.dtype.itemsize <= STACK_BYTES


def _declare_thread_row(emitter: KernelEmitter, scratch: Scratch) -> None:
    """Declare a scratch buffer that is large or of symbolic size: on the heap, reused by all iterations of a thread."""
    name, element = emitter.names.pointers[scratch.name], C_TYPES[scratch.dtype]
    origin = emitter.origins.get(scratch.name, ())
    emitter.writer.line(f"Row<{element}> {name}_memory({c_index(scratch.size)});  // {scratch.name}", origin)
    emitter.writer.line(f"{element} *const {name} = {name}_memory.start;", origin)
