"""Units of fusion in an order of dependencies, which is kept up while units grow.

    units in order     a    b    c    d      each needs only units to its left
    d joins a          is there a path from what d needs back to a? only units right of a can be on one
    d needs b          b is between them, and on no path from a to d: it moves before a
    new order          b    a+d  c

Each join checks whether something has to run in between. Without an order, the check walks over all that a value
was computed from: over the whole program for each residual connection.

In torch: torch/_inductor/scheduler.py (can_fuse, which asks sets of ancestors). Read next:
nbcompile/scheduling/fuse.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbcompile.scheduling.groups import Group


@dataclass(slots=True, eq=False)
class Unit:
    """A group under construction, or a single buffer that is no kernel: an input, or an extern call."""

    names: set[str]
    group: Group | None
    needs: set[str] = field(default_factory=set)
    """Names of all dependencies of the members, members included."""


class UnitOrder:
    """The units as they were created, and in a topological order of their dependencies."""

    def __init__(self, unit_of: Mapping[str, Unit]) -> None:
        self._unit_of = unit_of
        self._created: dict[Unit, int] = {}
        self._ordered: list[Unit | None] = []
        self._position: dict[Unit, int] = {}

    def __iter__(self) -> Iterator[Unit]:
        """The units, oldest first."""
        return iter(self._created)

    def created(self, unit: Unit) -> int:
        """The number of units that were created before this one."""
        return self._created[unit]

    def append(self, unit: Unit) -> None:
        """Add a unit that nothing needs yet."""
        self._created[unit] = self._position[unit] = len(self._ordered)
        self._ordered.append(unit)

    def between(self, names: set[str], target: Unit) -> set[Unit] | None:
        """The units behind ``target`` in order that the names depend on; None if one of them depends on ``target``."""
        position = self._position[target]
        found: set[Unit] = set()
        worklist = [names]
        while worklist:
            for name in worklist.pop():
                unit = self._unit_of.get(name)
                if unit is target:
                    return None
                # Units in front of the target cannot depend on it, nor can what they need: the search ends there.
                if unit is not None and unit not in found and self._position[unit] > position:
                    found.add(unit)
                    worklist.append(unit.needs - unit.names)
        return found

    def move_before(self, between: set[Unit], target: Unit) -> None:
        """Move units before ``target``, which depends on them from now on; they are what ``between`` found."""
        if not between:
            return
        start, stop = self._position[target], max(self._position[unit] for unit in between) + 1
        affected = self._ordered[start:stop]
        # The units that were found are closed under dependencies after the target, so their own order does not change.
        self._put(start, [unit for unit in affected if unit in between])
        self._put(start + len(between), [unit for unit in affected if unit not in between])

    def replace(self, merged: Unit, into: Unit) -> None:
        """Give the position of a unit to one that has taken its members over; that one's old position stays empty."""
        del self._created[merged]
        # A gap instead of a deletion: all other positions stay valid.
        self._ordered[self._position[into]] = None
        self._put(self._position.pop(merged), [into])

    def _put(self, start: int, units: list[Unit | None]) -> None:
        for position, unit in enumerate(units, start):
            self._ordered[position] = unit
            if unit is not None:
                self._position[unit] = position
