"""Collectives between processes: issued early, waited for late, so that kernels run while data is on its way.

    program     all_reduce(a) -> c     wait(c) -> w     mm(x, y) -> b     w + b
    launches    all_reduce             mm               wait              kernel (w + b)

A collective returns before it is done: it reads its arguments and writes its results until the wait for it. So these
are neither overwritten nor reused before; and what a wait returns is the collective's result, the same memory.

Every process issues its collectives in the order of the program, since those of one process are matched with those of
another by
number.

In torch: torch/_inductor/comms.py (raise_comms, sink_waits), ir.py (_CollectiveKernel). Read next:
nbcompile/scheduling/plan.py
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from nbcompile.ir.buffer import Buffer, Extern, ExternOutput, Program
from nbcompile.scheduling.dependencies import is_collective, is_wait, waited_for
from nbcompile.scheduling.memory import sizes_of
from nbcompile.scheduling.units import Unit

MOST_BYTES_IN_FLIGHT = 1 << 29
"""Bytes: beyond it no further collective is issued before a wait, as its results need memory. Not measured."""
ISSUED, COMPUTED, WAITED = range(3)
"""Kinds of units: of those that could run next, the lowest does."""
Priority = tuple[int, int, int]
"""One of these, the number of the first collective that needs the unit, and its position in the given order."""


def waits_of(program: Program, needs: Mapping[str, set[str]], order: Sequence[str]) -> dict[str, frozenset[str]]:
    """Waits that each buffer depends on; empty if the program has none.

    Args:
        program: Its buffers.
        needs: For each buffer, those that must run before it.
        order: The buffers, each after what it needs.
    """
    by_name = {buffer.name: buffer for buffer in program.buffers}
    if not any(map(is_wait, program.buffers)):
        return {}
    found: dict[str, frozenset[str]] = {}
    for name in order:
        own = {name} if is_wait(by_name[name]) else ()
        found[name] = frozenset().union(own, *(found.get(needed, ()) for needed in needs[name]))
    return found


def overlapped(program: Program, units: Sequence[Unit]) -> list[Unit]:
    """The units in an order in which as much as possible is between each collective and the wait for it."""
    if not any(is_collective(buffer) or is_wait(buffer) for buffer in program.buffers):
        return list(units)
    return list(_Order(program, units).units())


class _Order:
    """Topological order by priorities."""

    def __init__(self, program: Program, units: Sequence[Unit]) -> None:
        self.given = units
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        unit_of = {name: at for at, unit in enumerate(units) for name in unit.names}
        self.needs = [{unit_of[name] for name in unit.needs - unit.names if name in unit_of} for unit in units]
        self.rank = self._ranks()
        sizes = sizes_of(program)
        results: dict[str, int] = {}
        for buffer in program.buffers:
            if isinstance(buffer, ExternOutput):
                results[buffer.extern] = results.get(buffer.extern, 0) + sizes.get(buffer.name, 0)
        self.bytes_of = results
        self.waited = waited_for(program)
        self.in_flight: dict[str, int] = {}

    def _ranks(self) -> list[int]:
        """Number of the first collective that needs each unit; what none needs comes after all others."""
        collectives = [at for at, unit in enumerate(self.given) if is_collective(self._only(unit))]
        ranks = [len(collectives)] * len(self.given)
        # In the order in which they are issued: what an earlier collective
        # needs has its rank already, and so has all that is reached through it.
        for rank, collective in enumerate(collectives):
            worklist = [collective]
            while worklist:
                at = worklist.pop()
                if ranks[at] > rank:
                    ranks[at] = rank
                    worklist.extend(self.needs[at])
        return ranks

    def _only(self, unit: Unit) -> Buffer | None:
        """The buffer of a unit that is no kernel."""
        return self.buffers.get(next(iter(unit.names))) if unit.group is None else None

    def _priority(self, at: int) -> Priority:
        buffer = self._only(self.given[at])
        if is_wait(buffer):
            kind = WAITED
        elif isinstance(buffer, Extern) and not is_collective(buffer):
            kind = COMPUTED
        else:
            # Arguments, and results of calls, are no work.
            kind = ISSUED if buffer is not None else COMPUTED
        return kind, self.rank[at], at

    def units(self) -> Iterator[Unit]:
        users: dict[int, list[int]] = {}
        missing = [len(needed) for needed in self.needs]
        for user, needed in enumerate(self.needs):
            for one in needed:
                users.setdefault(one, []).append(user)
        # Kahn's algorithm with a heap: of the units all of whose
        # needs have run, the one with the lowest priority is next.
        ready = [self._priority(unit) for unit, count in enumerate(missing) if not count]
        heapq.heapify(ready)
        while (at := self._next(ready)) is not None:
            yield self.given[at]
            for user in users.get(at, ()):
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, self._priority(user))

    def _next(self, ready: list[Priority]) -> int | None:
        """The first unit that is ready; a collective with too many bytes on their way comes after a wait."""
        held_back: list[Priority] = []
        while ready and self._is_too_much(ready[0]):
            held_back.append(heapq.heappop(ready))
        # With nothing else to do there is nothing to wait for either.
        entries = ready or held_back
        chosen = heapq.heappop(entries) if entries else None
        for entry in held_back:
            heapq.heappush(ready, entry)
        if chosen is None:
            return None
        buffer = self._only(self.given[chosen[2]])
        if is_collective(buffer):
            self.in_flight[buffer.name] = self.bytes_of.get(buffer.name, 0)
        for name in self.waited.get(buffer.name, ()) if is_wait(buffer) else ():
            self.in_flight.pop(name, None)
        return chosen[2]

    def _is_too_much(self, entry: Priority) -> bool:
        buffer = self._only(self.given[entry[2]])
        if not is_collective(buffer) or not self.in_flight:
            return False
        return sum(self.in_flight.values()) + self.bytes_of.get(buffer.name, 0) > MOST_BYTES_IN_FLIGHT
