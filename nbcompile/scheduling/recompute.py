"""What two kernels need is computed in both, where the second has at hand what it is made of.

    kernel0: buf0[i0, i1] = x[i0, i1] * w[i1] * 2.0;  buf1[i1] = sum over r0 of buf0[r0, i1]
    kernel1: buf2[i0]     = sum over r0 of buf0[i0, r0] * x[i0, r0]
        ->   buf2[i0]     = sum over r0 of x[i0, r0] * w[r0] * 2.0 * x[i0, r0]      buf0 is not stored any more

Gradients are like this: a sum down columns for a weight, a sum along rows for an input, of the same product. Reading
memory costs more than a few multiplications; so a cheap value goes into its other kernels if each of them reads at most
one large tensor more for it (in place of the value itself), and then nobody has to write it.

In torch: lazy values of torch/_inductor/ir.py (StorageBox.mark_reuse). Read next: nbcompile/scheduling/build.py
"""

from __future__ import annotations

from dataclasses import replace

from nbcompile.ir.buffer import Buffer, Computed, Extern, Pointwise, Program, Reduction, views_in
from nbcompile.ir.expr import cost, loads, walk
from nbcompile.ir.index import Index, constant, product, same
from nbcompile.scheduling.dependencies import reads
from nbcompile.scheduling.fuse import Unit
from nbcompile.scheduling.inline import CHEAP_COST, nodes_with_inlined, with_inlined

LONGEST = 64
"""Nodes of a body: a longer one would be emitted too often."""
SMALL_SHARE = 8
"""What is so many times smaller than the value is in a cache."""


def compute_again(program: Program, units: list[Unit]) -> Program:
    """Put cheap values into the kernels that would read them; the units have the new bodies, too."""
    again = _Again(program, units)
    for buffer in program.buffers:
        again.consider(buffer.name)
    again.tell_units()
    return replace(program, buffers=tuple(again.buffers.values())) if again.changed else program


class _Again:
    """The program as it is by now."""

    def __init__(self, program: Program, units: list[Unit]) -> None:
        self.buffers: dict[str, Buffer] = {each.name: each for each in program.buffers}
        self.unit_of = {name: unit for unit in units for name in unit.names}
        self.readers: dict[str, set[str]] = {}
        for buffer in program.buffers:
            for name in reads(buffer):
                self.readers.setdefault(name, set()).add(buffer.name)
        self.returned = {each.buffer for each in views_in(program.outputs)}
        self.overwritten = {each.writes_to for each in program.buffers if isinstance(each, Pointwise)}
        self.overwritten |= {name for each in program.buffers if isinstance(each, Extern) for name in each.mutates}
        self.changed: set[str] = set()

    def consider(self, name: str) -> None:
        """Compute one value again in all other kernels that need it, if each of them gains."""
        value, home = self.buffers[name], self.unit_of.get(name)
        if not isinstance(value, Pointwise) or home is None or name in self.returned or not _is_cheap(value):
            return
        others = [self.buffers[each] for each in self.readers.get(name, ()) if each not in home.names]
        # Where no kernel of its own needs it, it is no by-product: it is what the kernel is for.
        if not others or len(others) == len(self.readers[name]) or not all(self._gains(each, value) for each in others):
            return
        for reader in others:
            assert isinstance(reader, Computed)
            within = {name: value}
            nodes = nodes_with_inlined(reader, within)
            self.buffers[reader.name] = replace(reader, body=with_inlined(reader.body, within), from_nodes=nodes)
            self.changed.add(reader.name)
            self.readers[name].discard(reader.name)
            for each in reads(value):
                self.readers[each].add(reader.name)

    def _gains(self, reader: Buffer, value: Pointwise) -> bool:
        """Whether a kernel reads no more than before: for each element once what it is made of."""
        if not isinstance(reader, Computed):
            return False
        count = product(value.layout.size)
        reduced = reader.reduced if isinstance(reader, Reduction) else ()
        if not same(product((*reader.layout.size, *reduced)), count):
            return False
        if len({each for each in loads(reader.body) if each.buffer == value.name}) > 1:
            return False
        if any(each in self.overwritten or not self._is_stored(each) for each in reads(value)):
            return False
        at_hand = {each for name in self.unit_of[reader.name].names for each in reads(self.buffers[name])}
        far = [each for each in reads(value) if each not in at_hand and not self._is_small(each, count)]
        return len(far) <= 1

    def _is_stored(self, name: str) -> bool:
        """Whether a value is in memory in any case."""
        if not isinstance(self.buffers[name], Computed) or name in self.returned:
            return True
        home = self.unit_of[name].names
        return any(each not in home for each in self.readers.get(name, ()))

    def _is_small(self, name: str, count: Index) -> bool:
        layout = getattr(self.buffers[name], "layout", None)
        size = None if layout is None else constant(product(layout.size))
        whole = constant(count)
        return size is not None and (size == 1 or (whole is not None and size * SMALL_SHARE <= whole))

    def tell_units(self) -> None:
        """The groups' members with their new bodies."""
        for unit in {id(self.unit_of[name]): self.unit_of[name] for name in self.changed}.values():
            assert unit.group is not None
            now = {name: each for name in unit.names if isinstance(each := self.buffers[name], Computed)}
            members = tuple(replace(each, buffer=now[each.buffer.name]) for each in unit.group.members)
            unit.group = replace(unit.group, members=members)


def _is_cheap(value: Pointwise) -> bool:
    return (
        not value.writes_to
        and cost(value.body) <= CHEAP_COST
        and sum(1 for _ in walk(value.body)) <= LONGEST
        and any(True for _ in loads(value.body))
    )
