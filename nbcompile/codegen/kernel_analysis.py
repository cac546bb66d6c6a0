"""Analyses of a kernel that its code generator needs: work, sizes, non-temporal stores, prefetches, provenance.

    for i0 < 64:  for r0 < s0: total += exp(x[s0*i0 + r0])
    ->  work: unknown, it depends on s0        sizes: (s0,)        lanes: along r0

The C++ and the Triton generator share them.

In torch: torch/_inductor/codegen/simd.py (estimate_kernel_num_bytes), sizevars.py. Read next:
nbcompile/codegen/kernels.py
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from nbcompile.codegen.machine_model import (
    GIL_RELEASE_WORK,
    NON_TEMPORAL_BYTES,
    NON_TEMPORAL_TILE_BYTES,
    PREFETCH_MIN_BYTES,
    PREFETCH_ROW_BYTES,
    PREFETCH_ROWS,
)
from nbcompile.ir import index as indexing
from nbcompile.ir.buffer import Program, Tensor
from nbcompile.ir.expr import Expr, IndexOf, Load, Masked
from nbcompile.ir.index import ONE, Index, Symbol
from nbcompile.ir.kernel import Accumulate, Carry, Inner, Kernel, Loop, Nest, Schedule, Statement, Store, Update
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import children, cost, walk


def vectorises_outer_loop(kernel: Kernel) -> bool:
    """Return whether the vectorised loop is the last outer one."""
    return bool(kernel.loops) and kernel.vector_variable == kernel.loops[-1].variable


def trip_count(loops: Sequence[Loop]) -> int | None:
    """Iterations of the innermost body; None if they depend on a symbol."""
    return indexing.constant(indexing.product([loop.size for loop in loops]))


def estimate_work(kernel: Kernel) -> int | None:
    """Estimated cost of one call, in additions; None if it depends on a symbol."""
    outer = trip_count(kernel.loops)
    total = 0
    for statement in kernel.body:
        inner, parts = (
            (trip_count(statement.loops), statement.body) if isinstance(statement, Nest) else (1, (statement,))
        )
        if inner is None:
            return None
        # 1 for the statement itself: a copy has no operation, but moves memory.
        total += inner * sum(1 + cost(part.value) for part in parts)
    return None if outer is None else outer * total


def releases_gil(kernel: Kernel) -> bool:
    """Return whether the launcher releases the GIL during this kernel."""
    work = estimate_work(kernel)
    # A symbolic size may be large.
    return work is None or work > GIL_RELEASE_WORK


@dataclass(frozen=True, slots=True)
class NonTemporalStore:
    """Result that is stored non-temporally, bypassing the cache, if it is large."""

    size: Index
    """Bytes. A symbolic size is compared with the limit at run time."""
    limit: int
    """Bytes from which on it is large."""
    whole_lines: bool
    """Store only whole cache lines non-temporally, as adjacent ones are stored at different times."""

    @property
    def is_small(self) -> bool:
        """True if it is known to be smaller than the limit."""
        number = indexing.constant(self.size)
        return number is not None and number < self.limit

    def is_large(self, pointer: str) -> str:
        """C++ condition under which it is large."""
        return f"{pointer}_is_large" if indexing.constant(self.size) is None else "true"


def non_temporal_stores(kernel: Kernel, schedule: Schedule, scattered: Container[str]) -> dict[str, NonTemporalStore]:
    """Choose the buffers with non-temporal stores; ``scattered`` are those that are not stored sequentially.

    A normal store first fetches the cache line (write-allocate): a third of the memory traffic of a sum. Results that
    the graph reads again should stay in the cache, so of sequential stores only unread results bypass it. Scattered
    stores have no hardware prefetch and wait for each line, so these bypass it unless the kernel itself reads them.
    """
    tensors = schedule.program.tensors()
    # A size that is symbolic is compared in the kernel, at each call: it must be one of the kernel's parameters.
    known, read = set(size_symbols(kernel)), schedule.buffers_read
    entries = {
        name: NonTemporalStore(
            _size_in_bytes(tensors[name]),
            NON_TEMPORAL_TILE_BYTES if name in scattered else NON_TEMPORAL_BYTES,
            name in scattered,
        )
        for name in kernel.writes
        #     stored sequentially    bypasses the cache if no kernel of the graph reads it again
        #     stored scattered       bypasses it unless this kernel reads it
        if name not in (kernel.reads if name in scattered else read)
    }
    # A symbol that is no parameter of the kernel cannot be compared in it.
    return {name: entry for name, entry in entries.items() if entry.size.free_symbols <= known and not entry.is_small}


def _size_in_bytes(tensor: Tensor) -> Index:
    return tensor.layout.elements * tensor.dtype.itemsize


def prefetched_rows(kernel: Kernel, nest: Nest) -> tuple[Load, ...]:
    """Loads to prefetch while a nest runs: those of the first pass, PREFETCH_ROWS outer iterations ahead.

        pass 1 over row i    waits for memory: nothing was in the cache
        pass 2 over row i    computes; prefetches row i + 2 of the first tensor
        pass 3 over row i    computes; prefetches row i + 2 of the second tensor

    Only a kernel with several passes over a row has idle memory bandwidth to prefetch with.
    """
    # Each of the later passes prefetches its share of the first pass's loads: ``found[at :: len(later)]``.
    first, *later = [statement for statement in kernel.body if isinstance(statement, Nest)] or [nest]
    later = [nest for nest in later if len(nest.loops) == 1 and nest.loops[0].size == first.loops[-1].size]
    at = next((at for at, other in enumerate(later) if other is nest), None)
    if at is None or not kernel.loops or len(first.loops) != 1:
        return ()
    found = _loads_of_a_row(kernel, first, nest.loops[0].variable)
    return tuple(found[at :: len(later)]) if _is_worth_prefetching(kernel, first, found) else ()


def _is_worth_prefetching(kernel: Kernel, nest: Nest, loads: Sequence[Load]) -> bool:
    """True if a row of the loads stays in the cache, and all rows do not."""
    length, rows = indexing.constant(nest.loops[-1].size), trip_count(kernel.loops)
    if length is None or rows is None:
        return False
    row = sum(length * load.dtype.itemsize for load in loads)
    # A longer row would push out the one that is being computed; a smaller array is in a cache from the start.
    return row <= PREFETCH_ROW_BYTES and row * rows >= PREFETCH_MIN_BYTES


def _loads_of_a_row(kernel: Kernel, nest: Nest, variable: Symbol) -> list[Load]:
    """Contiguous loads of a nest, with their indices moved PREFETCH_ROWS outer iterations ahead."""
    along, outer = nest.loops[0].variable, kernel.loops[-1].variable
    found = dict.fromkeys(
        replace(node, index=(node.index[0].xreplace({outer: outer + PREFETCH_ROWS, along: variable}),))
        for part in nest.body
        for node in walk(part.value)
        if isinstance(node, Load) and not node.gathers and stride_along(node.index[0], along) == ONE
        and outer in node.index[0].free_symbols and node.buffer in kernel.reads
    )  # fmt: skip
    return list(found)


def buffer_origins(kernel: Kernel, program: Program) -> dict[str, tuple[str, ...]]:
    """Map each local of the kernel (buffer, scratch buffer, wide accumulator) to the fx node that it computes.

    A buffer is the result of its last fx node; expressions in its body carry the
    earlier ones (``expr.Apply.origin``).
    """
    tensors = program.tensors()
    # A dict and no set: the order decides the text of comments, and equal kernels must have equal texts.
    mentioned = dict.fromkeys((*kernel.buffers, *kernel.reads, *kernel.writes))
    found = {name: tensors[name].from_nodes[-1:] for name in mentioned}
    return {name: nodes for buffer, nodes in found.items() for name in _names_of(buffer)}


def _names_of(buffer: str) -> tuple[str, ...]:
    return (buffer, f"row_{buffer}", f"packed_{buffer}", f"{buffer}_wide", f"{buffer}_narrow")


def size_symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    """Symbolic sizes that the kernel uses, sorted by name."""
    # Free symbols that no loop and no gather binds are parameters of the generated function.
    bound = {loop.variable for loop in kernel.loops}
    found: set[sympy.Symbol] = set()
    for scratch in kernel.scratch:
        found |= scratch.size.free_symbols
    for loop in kernel.loops:
        found |= loop.size.free_symbols
    for statement in flatten_statements(kernel.body):
        if isinstance(statement, Nest):
            for loop in statement.loops:
                bound.add(loop.variable)
                found |= loop.size.free_symbols
            continue
        if isinstance(statement, Store):
            found |= statement.offset.free_symbols
        if isinstance(statement, (Accumulate, Carry)):
            found |= statement.index.free_symbols
        offsets = walk(statement.offset) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *offsets):
            for index in getattr(node, "index", ()) if not isinstance(node, IndexOf) else (node.index,):
                found |= index.free_symbols
            for gather in getattr(node, "gathers", ()):
                bound.add(gather.symbol)
                found |= gather.size.free_symbols
    return tuple(sorted(found - bound, key=lambda symbol: symbol.name))


def flatten_statements(body: Sequence[Statement]) -> Iterator[Inner | Nest]:
    """Iterate over all statements, each nest before its body (preorder)."""
    for statement in body:
        yield statement
        if isinstance(statement, Nest):
            yield from statement.body


def unconditional_loads(body: Expr) -> Iterator[Load]:
    """Iterate over the loads that are not masked."""
    # A masked load may be out of bounds where the mask is false (the alternative, where it is true): neither can be
    # moved in front of it.
    if isinstance(body, Load):
        yield body
    for child in (body.condition,) if isinstance(body, Masked) else children(body):
        yield from unconditional_loads(child)


def stored_buffers(parts: Sequence[Statement | Inner]) -> frozenset[str]:
    """Buffers that the statements write."""
    names = set()
    for part in parts:
        if isinstance(part, (Store, Update)):
            names.add(part.buffer)
        elif isinstance(part, Nest):
            names |= stored_buffers(part.body)
    return frozenset(names)
