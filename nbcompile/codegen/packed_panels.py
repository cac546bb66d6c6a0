"""Packed panels: a block of strided rows is packed into contiguous memory (transpose packing), then reduced.

    for i0 < 64:  for i1 < 1000: v0 = max(x[64*i1 + i0]) ...; for i1 < 1000: ... exp(x[64*i1 + i0] - v0)
    ->  for (i64 i0_first = 0; i0_first < 64; i0_first += 16) {
          pack_panel<f32, W>(panel0, 1040, in0 + i0_first, 64, 1000, i0_end - i0_first);        whole lines of x, once
          for (i64 i0 = i0_first; i0 < i0_end; i0++) { ... load<f32, W>(packed0 + i1, lanes) ... }

        memory                        panel (L2)
        r0 r1 r2 .. r15 | r16 ..      r0: c0 c1 c2 ...        each pass over a row reads contiguous memory
    c0  #  #  #     #   |             r1: c0 c1 c2 ...
    c1  #  #  #     #   |      ->     ...
    c2  #  #  #     #   |             r15: c0 c1 c2 ...

Without packing, every pass of a kernel over a row would touch one cache line per lane. Strided results are packed in
a panel too, and unpacked at the end. The row pitch is an odd number of vectors: at a power of two all rows of a panel
would share the same sets of L1.

In torch: nothing (torch/_inductor/codegen/cpp.py, CppTile2DKernel, transposes tiles of a single pass). Read next:
nbcompile/codegen/column_reduction.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbcompile.codegen.emitter import (
    KernelEmitter,
    close_loop,
    declare_stack_rows,
    is_large,
    open_loop,
    outer_loops,
    scope_of,
)
from nbcompile.codegen.kernel_analysis import flatten_statements, unconditional_loads, vectorises_outer_loop
from nbcompile.codegen.loops import emit_vector_nest
from nbcompile.codegen.machine_model import ALIGNED_SIZE, MAX_PANEL_ROWS, MIN_PANELS, MIN_TILED_ITERATIONS, PANEL_BYTES
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.statements import emit_statement
from nbcompile.ir import index as indexing, strides
from nbcompile.ir.expr import Load
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.kernel import Inner, Kernel, Loop, Nest, Scratch, Store, is_short_row, is_transposed_access
from nbcompile.ir.traversal import walk


@dataclass(frozen=True, slots=True)
class PackedAccess:
    """Strided access that goes through a panel: a buffer that is contiguous along an outer loop."""

    buffer: str
    offset: Index
    dtype: torch.dtype
    is_written: bool


@dataclass(frozen=True, slots=True)
class PackedPanel:
    """Panel of a kernel: the outer loop that is blocked, and the accesses that are packed."""

    rows: Loop
    inner: tuple[Loop, ...]
    accesses: tuple[PackedAccess, ...]

    @property
    def length(self) -> Index:
        """Elements of a row."""
        return indexing.product([loop.size for loop in self.inner])

    @property
    def row_pitch(self) -> Index:
        """Elements from a row to the next: an odd number of vectors, at least one more than the row has."""
        # With a power of two, the elements of one column would be in the same cache set, and evict each other.
        return indexing.FloorDiv(self.length + 2 * ALIGNED_SIZE - 1, 2 * ALIGNED_SIZE) * 2 * ALIGNED_SIZE + ALIGNED_SIZE

    @property
    def rows_per_panel(self) -> int:
        """Rows of one panel: as many as fit in L2 and leave enough panels for the threads."""
        #     PANEL_BYTES / bytes of a row    the panel stays in L2
        #     count / MIN_PANELS              enough panels for the threads
        #     a multiple of ALIGNED_SIZE      whole vectors are packed
        length, count = indexing.constant(self.length), indexing.constant(self.rows.size)
        bytes_of_row = None if length is None else length * sum(access.dtype.itemsize for access in self.accesses)
        limits = [
            MAX_PANEL_ROWS,
            ALIGNED_SIZE if bytes_of_row is None else PANEL_BYTES // bytes_of_row,
            MAX_PANEL_ROWS if count is None else count // MIN_PANELS,
        ]
        return max(ALIGNED_SIZE, min(limits) // ALIGNED_SIZE * ALIGNED_SIZE)

    def scratch_buffers(self) -> tuple[Scratch, ...]:
        """Memory of the panel, one buffer for each access."""
        size = self.row_pitch * self.rows_per_panel
        return tuple(Scratch(f"packed_{access.buffer}", access.dtype, size) for access in self.accesses)


def find_packed_panel(kernel: Kernel) -> PackedPanel | None:
    """Choose the panel of a multi-pass row kernel: the outer loop along which most buffers are contiguous, or None."""
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    # Lanes along the outer loop (a column reduction) need no packing.
    if not nests or vectorises_outer_loop(kernel) or kernel.vector_variable is None:
        return None
    inner = nests[0].loops
    # One panel serves all passes, so they have to run over the same elements, and a row has to be short enough for L2.
    if any(nest.loops != inner for nest in nests) or not is_short_row(inner):
        return None
    body = [part for nest in nests for part in nest.body]
    found = [
        PackedPanel(loop, inner, _transposed_accesses(kernel, body, inner, loop.variable))
        for loop in kernel.loops
        if _is_long(loop)
    ]
    return max((panel for panel in found if panel.accesses), key=lambda panel: len(panel.accesses), default=None)


def _is_long(loop: Loop) -> bool:
    count = indexing.constant(loop.size)
    return count is None or count >= MIN_TILED_ITERATIONS


def _transposed_accesses(
    kernel: Kernel, body: Sequence[Inner], inner: Sequence[Loop], rows: Symbol
) -> tuple[PackedAccess, ...]:
    """Accesses that are contiguous along ``rows``. A panel is packed before any of its rows is written."""
    lanes = inner[-1].variable
    store_counts = Counter(part.buffer for part in flatten_statements(kernel.body) if isinstance(part, Store))
    found: dict[str, PackedAccess] = {}
    for part in body:
        for load in unconditional_loads(part.value):
            if (
                not load.gathers
                # A buffer that the kernel writes may change after the panel was packed.
                and load.buffer not in store_counts
                and is_transposed_access(load.index[0], lanes, rows)
            ):
                # Of a buffer that is loaded at several offsets, the first is packed.
                found.setdefault(load.buffer, PackedAccess(load.buffer, load.index[0], load.dtype, False))
        if (
            isinstance(part, Store)
            and store_counts[part.buffer] == 1
            and is_transposed_access(part.offset, lanes, rows)
        ):
            access = PackedAccess(part.buffer, part.offset, part.value.dtype, True)
            if _is_only_read_back(kernel, body, access):
                found[part.buffer] = access
    return tuple(found.values())


def _is_only_read_back(kernel: Kernel, body: Sequence[Inner], access: PackedAccess) -> bool:
    """Return whether a kernel loads from a written buffer only what an earlier pass stored there."""
    if access.buffer not in kernel.reads:
        return True
    # The panel has only the elements that were stored in it: a load of any other element would be wrong.
    loads = {node for part in body for node in walk(part.value) if isinstance(node, Load)}
    found = {load for load in loads if load.buffer == access.buffer}
    return access.buffer in kernel.buffers and found == {_load_of(access)}


def _load_of(access: PackedAccess) -> Load:
    return Load(access.buffer, (access.offset,), access.dtype)


def emit_packed_panels(emitter: KernelEmitter, panel: PackedPanel) -> None:
    """Emit the blocked loop: pack a panel of rows, run the kernel on each row, unpack the results."""
    writer, scratch_buffers = emitter.writer, panel.scratch_buffers()
    # Threads share the other loops and the blocks of rows; each thread has a panel of its own (``buffers``).
    others, row = [loop for loop in emitter.kernel.loops if loop != panel.rows], panel.rows.variable.name
    end, rows_per_panel = c_index(panel.rows.size), panel.rows_per_panel
    blocks = f"for (i64 {row}_first = 0; {row}_first < {end}; {row}_first += {rows_per_panel}) {{"
    with outer_loops(emitter, others, blocks, buffers=scratch_buffers):
        declare_stack_rows(emitter, scratch_buffers)
        if indexing.constant(panel.row_pitch) is None:
            writer.line(f"const i64 row_pitch = {c_index(panel.row_pitch)};")
        writer.line(f"const i64 {row}_end = min_of({row}_first + {rows_per_panel}, {end});")
        # Results are not packed before: the kernel stores each of their elements.
        for access in panel.accesses:
            if not access.is_written:
                _emit_copy(emitter, panel, access, "pack_panel")
        open_loop(writer, row, f"{row}_first", f"{row}_end")
        _emit_row(emitter, panel)
        close_loop(writer)
        for access in panel.accesses:
            if access.is_written:
                _emit_copy(emitter, panel, access, "unpack_panel")


def _emit_row(emitter: KernelEmitter, panel: PackedPanel) -> None:
    """Emit the kernel's body for one row; packed loads and stores are redirected to the panel."""
    writer, row = emitter.writer, panel.rows.variable.name
    position = c_index(indexing.flatten([loop.variable for loop in panel.inner], [loop.size for loop in panel.inner]))
    for at, access in enumerate(panel.accesses):
        element = C_TYPES[access.dtype]
        kind = element if access.is_written else f"const {element}"
        begin = f"{_panel_pointer(emitter, access)} + {_row_pitch(panel)}*({row} - {row}_first)"
        writer.line(f"{kind} *const packed{at} = {begin};", emitter.origins.get(access.buffer, ()))
        # Loads are looked up by buffer and offset: another offset of the same buffer still goes to memory.
        emitter.packed_loads[_load_of(access)] = f"packed{at} + {position}"
        if access.is_written:
            emitter.transposed_stores[access.buffer] = f"packed{at} + {position}"
    declare_stack_rows(emitter, emitter.kernel.scratch)
    for statement in emitter.kernel.body:
        if isinstance(statement, Nest):
            emit_vector_nest(emitter, statement)
        else:
            emit_statement(emitter, scope_of(emitter, None), statement)


def _emit_copy(emitter: KernelEmitter, panel: PackedPanel, access: PackedAccess, function: str) -> None:
    """Emit the calls of ``pack_panel`` or ``unpack_panel``: one per iteration of all inner loops but the last."""
    writer, (*loops, last) = emitter.writer, panel.inner
    row = panel.rows.variable
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    first = {last.variable: indexing.ZERO}
    position = indexing.flatten([loop.variable for loop in panel.inner], [loop.size for loop in panel.inner])
    begin = c_index(access.offset.xreplace(first), {row: f"{row.name}_first"})
    panel_address = (
        f"{_panel_pointer(emitter, access)} + {c_index(position.xreplace(first))}"
        if loops
        else _panel_pointer(emitter, access)
    )
    step = strides.stride_along(access.offset, last.variable)
    assert step is not None
    arguments = [
        *([is_large(emitter, access.buffer)] if access.is_written else []),
        panel_address, _row_pitch(panel), f"{emitter.names.pointers[access.buffer]} + {_parenthesized(begin)}",
        c_index(step), c_index(last.size), f"{row.name}_end - {row.name}_first",
    ]  # fmt: skip
    # Packing runs along the last inner loop, for all rows of the block together: along the rows memory is contiguous.
    call = f"{function}<{C_TYPES[access.dtype]}, W>({', '.join(arguments)});"
    writer.line(call, emitter.origins.get(access.buffer, ()))
    for _ in loops:
        close_loop(writer)


def _row_pitch(panel: PackedPanel) -> str:
    return "row_pitch" if indexing.constant(panel.row_pitch) is None else c_index(panel.row_pitch)


def _panel_pointer(emitter: KernelEmitter, access: PackedAccess) -> str:
    return emitter.names.pointers[f"packed_{access.buffer}"]


def _parenthesized(text: str) -> str:
    return f"({text})" if " - " in text else text
