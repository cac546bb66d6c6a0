"""Recomputation: a cheap producer is computed in each kernel that uses it, instead of being stored by one.

    kernel0: buf0[i0, i1] = x[i0, i1] * w[i1] * 2.0;  buf1[i1] = sum over r0 of buf0[r0, i1]
    kernel1: buf2[i0]     = sum over r0 of buf0[i0, r0] * x[i0, r0]
        ->   buf2[i0]     = sum over r0 of x[i0, r0] * w[r0] * 2.0 * x[i0, r0]      buf0 is not stored any more

Backward graphs have this pattern: a column sum for a weight and a row sum for an input, of one product. Memory traffic
costs more than a few multiplications. So a cheap producer is recomputed in its other consumers if that adds at most one
large read to each of them (instead of the read of the value itself); the value is then not stored at all.

In torch: lazy values of torch/_inductor/ir.py (StorageBox.mark_reuse). Read next: nbcompile/scheduling/build.py
"""

from __future__ import annotations

from dataclasses import replace

from nbcompile.ir.buffer import Buffer, Extern, LoopBuffer, Pointwise, Program, Reduction, views_in
from nbcompile.ir.index import Index, constant, known_equal, product
from nbcompile.ir.traversal import cost, loads, walk
from nbcompile.scheduling.dependencies import reads
from nbcompile.scheduling.inline import MAX_INLINED_COST, nodes_with_inlined, with_inlined
from nbcompile.scheduling.units import Unit

MAX_BODY_NODES = 64
"""Nodes of a body that may be recomputed: the code of a longer one would be duplicated too often."""
SMALL_RATIO = 8
"""A tensor this many times smaller than the value is taken to be in the cache: reading it is free."""


def recompute_in_consumers(program: Program, units: list[Unit]) -> Program:
    """Recompute cheap producers in the kernels that read them. The units get the new bodies, too."""
    recomputation = _Recomputation(program, units)
    for buffer in program.buffers:
        recomputation.consider(buffer.name)
    recomputation.update_groups()
    return replace(program, buffers=tuple(recomputation.buffers.values())) if recomputation.changed else program


class _Recomputation:
    """The program while producers are moved into their consumers."""

    def __init__(self, program: Program, units: list[Unit]) -> None:
        self.buffers: dict[str, Buffer] = {buffer.name: buffer for buffer in program.buffers}
        self.unit_of = {name: unit for unit in units for name in unit.names}
        self.readers: dict[str, set[str]] = {}
        for buffer in program.buffers:
            for name in reads(buffer):
                self.readers.setdefault(name, set()).add(buffer.name)
        self.returned = {view.buffer for view in views_in(program.outputs)}
        self.overwritten = {buffer.writes_to for buffer in program.buffers if isinstance(buffer, Pointwise)}
        self.overwritten |= {
            name for buffer in program.buffers if isinstance(buffer, Extern) for name in buffer.mutates
        }
        self.changed: set[str] = set()

    def consider(self, name: str) -> None:
        """Recompute one value in all kernels that read it but its own, if that is profitable for each of them."""
        value, home = self.buffers[name], self.unit_of.get(name)
        if not isinstance(value, Pointwise) or home is None or name in self.returned or not _is_cheap(value):
            return
        others = [self.buffers[reader] for reader in self.readers.get(name, ()) if reader not in home.names]
        # If no buffer of its own kernel reads it, the value is what that kernel is for: it stays.
        if (
            not others
            or len(others) == len(self.readers[name])
            or not all(self._is_profitable(reader, value) for reader in others)
        ):
            return
        for reader in others:
            assert isinstance(reader, LoopBuffer)
            inlined = {name: value}
            nodes = nodes_with_inlined(reader, inlined)
            self.buffers[reader.name] = replace(reader, body=with_inlined(reader.body, inlined), from_nodes=nodes)
            self.changed.add(reader.name)
            # The consumer reads the operands now: what is considered later has to see that.
            self.readers[name].discard(reader.name)
            for operand in reads(value):
                self.readers[operand].add(reader.name)

    def _is_profitable(self, reader: Buffer, value: Pointwise) -> bool:
        """True if a consumer runs once for each element of the value, and needs at most one more large read."""
        if not isinstance(reader, LoopBuffer):
            return False
        count = product(value.layout.size)
        reduced = reader.reduced if isinstance(reader, Reduction) else ()
        # With more iterations than elements (a broadcast), each element would be computed many times.
        if not known_equal(product((*reader.layout.size, *reduced)), count):
            return False
        # Two offsets of one value (a stencil) would compute each element twice.
        if len({load for load in loads(reader.body) if load.buffer == value.name}) > 1:
            return False
        # What is overwritten later has another content when the consumer runs; what is not stored cannot be read again.
        if any(operand in self.overwritten or not self._is_stored(operand) for operand in reads(value)):
            return False
        already_read = {operand for name in self.unit_of[reader.name].names for operand in reads(self.buffers[name])}
        additional = [
            operand for operand in reads(value) if operand not in already_read and not self._is_small(operand, count)
        ]
        return len(additional) <= 1

    def _is_stored(self, name: str) -> bool:
        """True if a value is in memory whatever is recomputed."""
        if not isinstance(self.buffers[name], LoopBuffer) or name in self.returned:
            return True
        # A value that another kernel reads is stored for it; one that only its own kernel reads is in registers.
        home = self.unit_of[name].names
        return any(reader not in home for reader in self.readers.get(name, ()))

    def _is_small(self, name: str, count: Index) -> bool:
        layout = getattr(self.buffers[name], "layout", None)
        size = None if layout is None else constant(product(layout.size))
        whole = constant(count)
        return size is not None and (size == 1 or (whole is not None and size * SMALL_RATIO <= whole))

    def update_groups(self) -> None:
        """Put the new bodies into the fusion groups."""
        for unit in {id(self.unit_of[name]): self.unit_of[name] for name in self.changed}.values():
            assert unit.group is not None
            updated = {name: buffer for name in unit.names if isinstance(buffer := self.buffers[name], LoopBuffer)}
            # The loops of a member stay as they were matched: the inlined body is written in
            # the consumer's own variables.
            members = tuple(replace(member, buffer=updated[member.buffer.name]) for member in unit.group.members)
            unit.group = replace(unit.group, members=members)


def _is_cheap(value: Pointwise) -> bool:
    return (
        not value.writes_to
        and cost(value.body) <= MAX_INLINED_COST
        and sum(1 for _ in walk(value.body)) <= MAX_BODY_NODES
        and any(True for _ in loads(value.body))
    )
