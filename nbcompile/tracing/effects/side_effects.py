"""Changes that the traced program makes to objects from outside, kept back until the graph has run.

While tracing, nothing real is touched: the real list keeps its items, the real
object its attributes. What changes is noted here, in the order of the first
change of each object, and becomes statements of the residual program.

    self.calls += 1        attributes[self]["calls"] = ...
    xs.append(y)           changed: xs

In torch: torch/_dynamo/side_effects.py. Read next:
nbcompile/tracing/effects/reconstruction.py
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbcompile.capture.recipe import Recipe
from nbcompile.capture.source import ConstantSource, Source
from nbcompile.record.model import StackLine
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker
from nbcompile.tracing.variables.functions import CellVariable

if TYPE_CHECKING:
    from nbcompile.tracing.effects.reconstruction import Reconstruction


@dataclass(slots=True)
class Change:
    """One object that changed, with the user's code that changed it first."""

    tracker: VariableTracker
    stack: tuple[StackLine, ...]
    attributes: dict[str, VariableTracker | None] = field(default_factory=dict)
    """Stored attributes; None: deleted."""
    items: bool = False
    """The items (of a list, dict or set) or the content (of a cell) changed."""


@dataclass(slots=True)
class GlobalChange:
    """A global that was stored (None: deleted)."""

    scope: dict[str, object]
    name: str
    value: VariableTracker | None
    stack: tuple[StackLine, ...]


class SideEffects:
    """All changes of one trace, and the one tracker of each real mutable object."""

    def __init__(self) -> None:
        self.trackers: dict[int, VariableTracker] = {}
        self.alive: list[object] = []
        """Keeps the objects behind the ids above from being collected."""
        self.changes_by_tracker: dict[int, Change] = {}
        self.globals: dict[tuple[int, str], GlobalChange] = {}
        self.order: list[Change | GlobalChange] = []
        self.deferred: list[VariableTracker] = []
        self.noted = 0
        """Calls put off until after the graph (config.reorderable_logging_functions)."""
        self.draws: list[Callable[[Reconstruction], Recipe]] = []
        """Draws from generators of random numbers, in order, replayed before the graph runs."""

    def any(self) -> bool:
        """True if there is anything to replay."""
        return bool(self.order or self.deferred)

    def count(self) -> int:
        """Number of changes so far."""
        return self.noted

    def draw(self, recipe: Callable[[Reconstruction], Recipe]) -> int:
        """A generator of random numbers is asked for something: its place among the draws."""
        self.noted += 1
        self.draws.append(recipe)
        return len(self.draws) - 1

    # -- identity ------------------------------------------------------------------------

    def known(self, value: object) -> VariableTracker | None:
        """The tracker that already stands for a real object."""
        return self.trackers.get(id(value))

    def remember(self, value: object, tracker: VariableTracker) -> VariableTracker:
        """One object, one tracker: changes through one name show through all."""
        self.trackers[id(value)] = tracker
        self.alive.append(value)
        return tracker

    def cell(
        self, cell: types.CellType, name: str, source: Source | None, frame_name: str | None = None
    ) -> CellVariable:
        """The tracker of a real cell."""
        found = self.known(cell)
        if isinstance(found, CellVariable):
            return found
        try:
            value = cell.cell_contents
        except ValueError:
            content: VariableTracker | None = None
        else:
            content = LazyVariable(value, source if source is not None else _kept(name, value))
        tracker = CellVariable(content, name, cell, source, frame_name)
        self.remember(cell, tracker)
        return tracker

    # -- attributes ----------------------------------------------------------------------

    def attribute(self, owner: VariableTracker, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name, or None."""
        return self.attribute_of(owner.identity(), name)

    def attribute_of(self, real: object, name: str) -> VariableTracker | None:
        """The same, of a real class, function or module."""
        change = self.changes_by_tracker.get(id(real))
        return None if change is None else change.attributes.get(name)

    def stored_attributes(self, owner: VariableTracker) -> dict[str, VariableTracker | None]:
        """Everything it stored on an object."""
        change = self.changes_by_tracker.get(id(owner.identity()))
        return {} if change is None else change.attributes

    def changed(self, owner: VariableTracker) -> VariableTracker | None:
        """The tracker that stands for an object on which it stored something, whichever tracker it was stored on."""
        change = self.changes_by_tracker.get(id(owner.identity()))
        return None if change is None or not change.attributes else change.tracker

    def is_deleted(self, owner: VariableTracker, name: str) -> bool:
        """True if it deleted the attribute."""
        stored = self.stored_attributes(owner)
        return name in stored and stored[name] is None

    def store_attribute(self, tracer: Tracer, owner: VariableTracker, name: str, value: VariableTracker) -> None:
        """``owner.name = value``."""
        self._change(tracer, owner).attributes[name] = value

    def delete_attribute(self, tracer: Tracer, owner: VariableTracker, name: str) -> None:
        """``del owner.name``."""
        self._change(tracer, owner).attributes[name] = None

    # -- items, cells, globals -----------------------------------------------------------

    def changes(self, tracer: Tracer, owner: VariableTracker) -> None:
        """The items of a container, or the content of a cell, are about to change."""
        self._change(tracer, owner).items = True

    def _change(self, tracer: Tracer, owner: VariableTracker) -> Change:
        tracer.output.may_change(owner)
        self.noted += 1
        change = self.changes_by_tracker.get(id(owner.identity()))
        if change is None:
            change = Change(owner, tracer.stack())
            self.changes_by_tracker[id(owner.identity())] = change
            self.order.append(change)
        return change

    def store_global(self, tracer: Tracer, scope: dict[str, object], name: str, value: VariableTracker | None) -> None:
        """``global name; name = value``."""
        tracer.output.may_change(None)
        self.noted += 1
        key = (id(scope), name)
        if key in self.globals:
            self.globals[key].value = value
            return
        self.globals[key] = GlobalChange(scope, name, value, tracer.stack())
        self.order.append(self.globals[key])

    def load_global(self, scope: dict[str, object], name: str) -> GlobalChange | None:
        """Value that the traced code stored in a global, or None."""
        return self.globals.get((id(scope), name))

    def stored_globals(self, scope: dict[str, object]) -> dict[str, VariableTracker | None]:
        """Everything that it stored in the globals of a module."""
        return {change.name: change.value for change in self.globals.values() if change.scope is scope}


def _kept(name: str, value: object) -> Source:
    return ConstantSource(name, value)
