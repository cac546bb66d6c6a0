"""Rows that lie across in memory: some of them at a time are turned over, and then lie beside each other.

    for i0 < 64:  for i1 < 1000: v0 = max(x[64*i1 + i0]) ...; for i1 < 1000: ... exp(x[64*i1 + i0] - v0)
    ->  for (i64 i0_first = 0; i0_first < 64; i0_first += 16) {
          take_rows<f32, W>(panel0, 1040, in0 + i0_first, 64, 1000, i0_end - i0_first);        whole lines of x, once
          for (i64 i0 = i0_first; i0 < i0_end; i0++) { ... load<f32, W>(turned0 + i1, lanes) ... }

A kernel goes over a row several times, and each of its lanes would be in a cache line of its own each time.
Results that lie across go the same way out.

In torch: nothing (torch/_inductor/codegen/cpp.py, CppTile2DKernel, turns tiles of one pass). Read next:
nbcompile/codegen/columns.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbcompile.codegen.emitter import (
    KernelEmitter,
    close_loop,
    is_large,
    open_loop,
    outer_loops,
    rows_on_stack,
    scope_of,
)
from nbcompile.codegen.facts import always_made, flat, vector_is_outside
from nbcompile.codegen.loops import nest_of_lanes
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.squares import FEW
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.values import ALIGNED_SIZE
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Load, walk
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.kernel import Inner, Kernel, Loop, Nest, Scratch, Store, is_short_row, is_transposed_access

PANEL_BYTES = 1 << 18
"""The rows that are turned at a time stay in a core's second cache."""
WIDEST = 4 * ALIGNED_SIZE
"""More rows at a time give nothing: they take whole lines of memory, and some beside each other."""
LEAST_PANELS = 8
"""So many panels at least, for the threads to share."""


@dataclass(frozen=True, slots=True)
class Turned:
    """What is turned: a buffer that is read, or written, along an outer loop."""

    buffer: str
    offset: Index
    dtype: torch.dtype
    is_written: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """The loop whose iterations are taken some at a time, and what is turned for them."""

    rows: Loop
    inner: tuple[Loop, ...]
    turned: tuple[Turned, ...]

    @property
    def length(self) -> Index:
        """How many elements a row has."""
        return indexing.product([loop.size for loop in self.inner])

    @property
    def apart(self) -> Index:
        """From a row to the next: an odd number of vectors (powers of two share cache lines), one to spare."""
        return indexing.FloorDiv(self.length + 2 * ALIGNED_SIZE - 1, 2 * ALIGNED_SIZE) * 2 * ALIGNED_SIZE + ALIGNED_SIZE

    @property
    def together(self) -> int:
        """How many rows are turned at a time."""
        length, count = indexing.constant(self.length), indexing.constant(self.rows.size)
        bytes_of_row = None if length is None else length * sum(each.dtype.itemsize for each in self.turned)
        limits = [
            WIDEST,
            ALIGNED_SIZE if bytes_of_row is None else PANEL_BYTES // bytes_of_row,
            WIDEST if count is None else count // LEAST_PANELS,
        ]
        return max(ALIGNED_SIZE, min(limits) // ALIGNED_SIZE * ALIGNED_SIZE)

    def rooms(self) -> tuple[Scratch, ...]:
        """The memory of each panel."""
        size = self.apart * self.together
        return tuple(Scratch(f"turned_{each.buffer}", each.dtype, size) for each in self.turned)


def panel_of(kernel: Kernel) -> Panel | None:
    """How a kernel that goes over rows gains from panels: by what is adjacent along an outer loop."""
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    if not nests or vector_is_outside(kernel) or kernel.vector_variable is None:
        return None
    inner = nests[0].loops
    if any(nest.loops != inner for nest in nests) or not is_short_row(inner):
        return None
    body = [part for nest in nests for part in nest.body]
    found = [Panel(loop, inner, _across(kernel, body, inner, loop.variable)) for loop in kernel.loops if _is_long(loop)]
    return max((each for each in found if each.turned), key=lambda each: len(each.turned), default=None)


def _is_long(loop: Loop) -> bool:
    count = indexing.constant(loop.size)
    return count is None or count >= FEW


def _across(kernel: Kernel, body: Sequence[Inner], inner: Sequence[Loop], rows: Symbol) -> tuple[Turned, ...]:
    """What is adjacent along a loop. All that a panel reads is read before anything of it is written."""
    lanes = inner[-1].variable
    times = Counter(part.buffer for part in flat(kernel.body) if isinstance(part, Store))
    found: dict[str, Turned] = {}
    for part in body:
        for load in always_made(part.value):
            if not load.gathers and load.buffer not in times and is_transposed_access(load.index[0], lanes, rows):
                # Of a buffer that is read at several places the first is turned.
                found.setdefault(load.buffer, Turned(load.buffer, load.index[0], load.dtype, False))
        if isinstance(part, Store) and times[part.buffer] == 1 and is_transposed_access(part.offset, lanes, rows):
            turned = Turned(part.buffer, part.offset, part.value.dtype, True)
            if _is_read_where_it_is_written(kernel, body, turned):
                found[part.buffer] = turned
    return tuple(found.values())


def _is_read_where_it_is_written(kernel: Kernel, body: Sequence[Inner], turned: Turned) -> bool:
    """Whether a kernel reads nothing of a buffer but what it keeps there from one pass to the next."""
    if turned.buffer not in kernel.reads:
        return True
    loads = {node for part in body for node in walk(part.value) if isinstance(node, Load)}
    found = {load for load in loads if load.buffer == turned.buffer}
    return turned.buffer in kernel.buffers and found == {_load_of(turned)}


def _load_of(turned: Turned) -> Load:
    return Load(turned.buffer, (turned.offset,), turned.dtype)


def panels(emitter: KernelEmitter, panel: Panel) -> None:
    """Some rows are turned over and gone over one by one; what they give is turned back."""
    writer, rooms = emitter.writer, panel.rooms()
    others, row = [loop for loop in emitter.kernel.loops if loop != panel.rows], panel.rows.variable.name
    end, together = c_index(panel.rows.size), panel.together
    blocks = f"for (i64 {row}_first = 0; {row}_first < {end}; {row}_first += {together}) {{"
    with outer_loops(emitter, others, blocks, rooms=rooms):
        rows_on_stack(emitter, rooms)
        if indexing.constant(panel.apart) is None:
            writer.line(f"const i64 apart = {c_index(panel.apart)};")
        writer.line(f"const i64 {row}_end = min_of({row}_first + {together}, {end});")
        for turned in panel.turned:
            if not turned.is_written:
                _move(emitter, panel, turned, "take_rows")
        open_loop(writer, row, f"{row}_first", f"{row}_end")
        _one_row(emitter, panel)
        close_loop(writer)
        for turned in panel.turned:
            if turned.is_written:
                _move(emitter, panel, turned, "give_rows")


def _one_row(emitter: KernelEmitter, panel: Panel) -> None:
    """What a kernel does for a row; its turned loads and stores are in the panels."""
    writer, row = emitter.writer, panel.rows.variable.name
    place = c_index(indexing.flatten([loop.variable for loop in panel.inner], [loop.size for loop in panel.inner]))
    for at, turned in enumerate(panel.turned):
        element = C_TYPES[turned.dtype]
        kind = element if turned.is_written else f"const {element}"
        begin = f"{_room(emitter, turned)} + {_apart(panel)}*({row} - {row}_first)"
        writer.line(f"{kind} *const turned{at} = {begin};", emitter.origins.get(turned.buffer, ()))
        emitter.turned_loads[_load_of(turned)] = f"turned{at} + {place}"
        if turned.is_written:
            emitter.turned[turned.buffer] = f"turned{at} + {place}"
    rows_on_stack(emitter, emitter.kernel.scratch)
    for statement in emitter.kernel.body:
        if isinstance(statement, Nest):
            nest_of_lanes(emitter, statement)
        else:
            emit_statement(emitter, scope_of(emitter, None), statement)


def _move(emitter: KernelEmitter, panel: Panel, turned: Turned, function: str) -> None:
    """One call for each of the inner loops' iterations but the last one's."""
    writer, (*loops, last) = emitter.writer, panel.inner
    row = panel.rows.variable
    for loop in loops:
        open_loop(writer, loop.variable.name, "0", c_index(loop.size))
    first = {last.variable: indexing.ZERO}
    inside = indexing.flatten([loop.variable for loop in panel.inner], [loop.size for loop in panel.inner])
    begin = c_index(turned.offset.xreplace(first), {row: f"{row.name}_first"})
    room = f"{_room(emitter, turned)} + {c_index(inside.xreplace(first))}" if loops else _room(emitter, turned)
    step = indexing.stride_along(turned.offset, last.variable)
    assert step is not None
    arguments = [
        *([is_large(emitter, turned.buffer)] if turned.is_written else []),
        room, _apart(panel), f"{emitter.names.pointers[turned.buffer]} + {_tight(begin)}", c_index(step),
        c_index(last.size), f"{row.name}_end - {row.name}_first",
    ]  # fmt: skip
    call = f"{function}<{C_TYPES[turned.dtype]}, W>({', '.join(arguments)});"
    writer.line(call, emitter.origins.get(turned.buffer, ()))
    for _ in loops:
        close_loop(writer)


def _apart(panel: Panel) -> str:
    return "apart" if indexing.constant(panel.apart) is None else c_index(panel.apart)


def _room(emitter: KernelEmitter, turned: Turned) -> str:
    return emitter.names.pointers[f"turned_{turned.buffer}"]


def _tight(text: str) -> str:
    return f"({text})" if " - " in text else text
