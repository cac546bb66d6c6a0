"""Loop fusion: which buffers share a loop nest.

Buffers are taken in topological order. One joins the latest group that produces what it reads, or else a group that
reads the same memory, or else begins its own group:

    buf0 = sin(x)                 a group
    buf1 = sum(buf0)              joins: it reads buf0 where it is computed
    buf2 = sort(buf1)             an extern call
    buf3 = buf0 * buf2            rejected by the first group: buf2 must run in between

Then whole groups are merged where one reads what the other produces. Every attempt is an entry of the fusion log.

In torch: torch/_inductor/scheduler.py (fuse_nodes_once, can_fuse, score_fusion). Read next:
nbcompile/scheduling/build.py
"""

from __future__ import annotations

from collections.abc import Mapping

from nbcompile.ir.buffer import LoopBuffer, Program
from nbcompile.record.model import FusionDecision
from nbcompile.scheduling.collectives import waits_of
from nbcompile.scheduling.dependencies import dependencies, reads, topological_order
from nbcompile.scheduling.groups import Incompatible, join, singleton_group
from nbcompile.scheduling.units import Unit, UnitOrder
from nbcompile.support import fuel


def fuse(program: Program) -> tuple[list[Unit], list[FusionDecision]]:
    """Group all computed buffers; inputs and extern calls are units of their own. In topological order."""
    needs = dependencies(program)
    by_name = {buffer.name: buffer for buffer in program.buffers}
    # In topological order all producers of a buffer have a unit when its turn comes.
    order = topological_order([buffer.name for buffer in program.buffers], needs)
    fusion = _Fusion(needs, waits_of(program, needs, order))
    for name in order:
        buffer = by_name[name]
        fusion.assign(buffer if isinstance(buffer, LoopBuffer) else None, name)
    fusion.merge_groups()
    return fusion.topological_order(), fusion.decisions


def _expect_fuel(first: str, second: str) -> None:
    """Reject a fusion that bisection leaves out."""
    if not fuel.allows("fusion", f"{first}, {second}"):
        raise Incompatible("bisection leaves it out")


class _Fusion:
    """The units, and the log of attempts, while buffers are assigned to units one by one."""

    def __init__(self, needs: dict[str, set[str]], waits: Mapping[str, frozenset[str]]) -> None:
        self.needs = needs
        self.waits = waits
        self.unit_of: dict[str, Unit] = {}
        self.units = UnitOrder(self.unit_of)
        self.readers: dict[str, list[str]] = {}
        self.decisions: list[FusionDecision] = []

    def topological_order(self) -> list[Unit]:
        """The units, each after its dependencies."""
        units = list(self.units)
        # The search works on names: each unit is given its number as one.
        label = {unit: str(at) for at, unit in enumerate(units)}
        needs = {label[unit]: {label[self.unit_of[name]] for name in unit.needs - unit.names} for unit in units}
        return [units[int(key)] for key in topological_order(list(needs), needs)]

    def assign(self, buffer: LoopBuffer | None, name: str) -> None:
        """Put one buffer into the best group that takes it, or into one of its own."""
        unit = Unit({name}, singleton_group(buffer) if buffer is not None else None, set(self.needs[name]))
        if buffer is not None:
            # The first group that takes it wins: candidates are sorted, and no attempt is undone.
            for candidate, through in self._candidates(buffer):
                if self._try(candidate, unit, buffer, through):
                    return
        self.units.append(unit)
        self.unit_of[name] = unit
        self._record_reads(buffer)

    def _record_reads(self, buffer: LoopBuffer | None) -> None:
        for name in reads(buffer) if buffer is not None else ():
            self.readers.setdefault(name, []).append(buffer.name)  # type: ignore[union-attr]

    def _candidates(self, buffer: LoopBuffer) -> list[tuple[Unit, str]]:
        """Groups with its producers (the latest first), then groups that read the same buffers."""
        # One attempt for each unit, though a buffer may read several of its members.
        found: dict[int, tuple[Unit, str]] = {}
        for name in reversed(reads(buffer)):
            unit = self.unit_of.get(name)
            if unit is not None and unit.group is not None:
                found.setdefault(id(unit), (unit, name))
        producers = sorted(found.values(), key=lambda pair: -self.units.created(pair[0]))
        for name in reads(buffer):
            for reader in reversed(self.readers.get(name, ())):
                unit = self.unit_of[reader]
                found.setdefault(id(unit), (unit, reader))
        return [*producers, *(pair for pair in found.values() if pair not in producers)]

    def _try(self, candidate: Unit, unit: Unit, buffer: LoopBuffer, through: str) -> bool:
        assert candidate.group is not None
        shared = through if through in reads(buffer) else f"both read {self._shared(through, buffer)}"
        try:
            # A kernel is one launch: what the buffer needs from elsewhere then has to run before the whole group. That
            # is impossible if it depends on the group: in buf1 = sort(buf0); buf2 = buf0 * buf1, buf2 cannot join buf0.
            between = self.units.between(unit.needs - candidate.names, candidate)
            if between is None:
                raise Incompatible("something between them must run in between")
            self._expect_same_waits(candidate, unit)
            group = join(candidate.group, buffer)
            # After join: only fusions that would happen use up fuel.
            _expect_fuel(through, buffer.name)
        except Incompatible as answer:
            self.decisions.append(FusionDecision(through, buffer.name, False, str(answer)))
            return False
        candidate.group = group
        candidate.names.add(buffer.name)
        candidate.needs |= unit.needs
        self.units.move_before(between, candidate)
        self.unit_of[buffer.name] = candidate
        self._record_reads(buffer)
        why = f"{buffer.name} reads {through} where it is computed" if shared == through else shared
        self.decisions.append(FusionDecision(through, buffer.name, True, why))
        return True

    def _expect_same_waits(self, first: Unit, second: Unit) -> None:
        """Keep what can run during a collective apart from what has to wait for it."""
        if self.waits and self._waits(first) != self._waits(second):
            raise Incompatible("one of them can run while a collective is on its way, the other waits for it")

    def _waits(self, unit: Unit) -> frozenset[str]:
        return frozenset().union(*(self.waits[name] for name in unit.names))

    def _shared(self, reader: str, buffer: LoopBuffer) -> str:
        unit = self.unit_of[reader]
        assert unit.group is not None
        group_reads = {name for member in unit.group.members for name in reads(member.buffer)}
        return ", ".join(name for name in reads(buffer) if name in group_reads)

    def merge_groups(self) -> None:
        """Merge whole groups of which one reads what the other produces: two chains with a common consumer."""
        # A buffer joins one group only. In c = f(x) + g(y), c joins the group of g(y), and that of f(x) is left over:
        # the two groups are merged here if the loops of one fit the other.
        for second in list(self.units):
            if second.group is None:
                continue
            for name in sorted(second.needs - second.names):
                first = self.unit_of.get(name)
                if first is not None and first is not second and first.group is not None and first in self.units:
                    self._merge(first, second, name)

    def _merge(self, first: Unit, second: Unit, through: str) -> bool:
        assert first.group is not None and second.group is not None
        reader = second.group.members[0].buffer.name
        try:
            between = self.units.between(second.needs - second.names - first.names, first)
            if between is None:
                raise Incompatible("something between them must run in between")
            self._expect_same_waits(first, second)
            group = first.group
            # Members join one by one, in their order, as if they had come after the first group.
            for member in second.group.members:
                group = join(group, member.buffer)
            _expect_fuel(through, reader)
        except Incompatible as answer:
            self.decisions.append(FusionDecision(through, reader, False, str(answer)))
            return False
        second.group = group
        second.names |= first.names
        second.needs |= first.needs
        for name in first.names:
            self.unit_of[name] = second
        # The merged unit takes the position of the first: whatever reads the first group is behind it already.
        self.units.move_before(between, first)
        self.units.replace(first, second)
        self.decisions.append(FusionDecision(through, reader, True, "two chains that meet: one loop for both"))
        return True
