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

from collections.abc import Callable

from nbcompile.capture.recipe import Recipe
from nbcompile.capture.source import ArraySource, ParameterSource
from nbcompile.tracing import breaks
from nbcompile.tracing.effects.attribute_dicts import AttributeDicts
from nbcompile.tracing.protocol import Change, GlobalChange, Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker


class SideEffects:
    """All changes of one trace, and the one tracker of each real mutable object."""

    def __init__(self) -> None:
        self.trackers: dict[int, VariableTracker] = {}
        self.attribute_dicts = AttributeDicts()
        self.alive: list[object] = []
        """Keeps the objects behind the ids above from being collected."""
        self.hashed: dict[int, VariableTracker] = {}
        """Objects from outside whose identity was the key of a dict or set."""
        self.changes_by_tracker: dict[int, Change] = {}
        self.globals: dict[tuple[int, str], GlobalChange] = {}
        self.order: list[Change | GlobalChange] = []
        self.deferred: list[VariableTracker] = []
        """Calls put off until after the graph (config.reorderable_logging_functions)."""
        self.log: list[VariableTracker | None] = []
        """The owner of each single change, in order; None for a global and for a call before the graph."""
        self.before_graph: list[Callable[[Reconstructor], Recipe]] = []
        """Draws from generators of random numbers, in order, replayed before the graph runs."""

    def keep_distinct(self, real: object, tracker: VariableTracker) -> None:
        """Note that an object is the key of a dict or set: two such keys have to stay two objects.

        The tensor of an array, and a parameter that the residual program creates, is a new object in each call.
        """
        if tracker.source is not None and not isinstance(tracker.source, (ArraySource, ParameterSource)):
            self.hashed[id(real)] = tracker

    def any(self) -> bool:
        """True if there is anything to replay."""
        return bool(self.order or self.deferred)

    def count(self) -> int:
        """Number of changes so far."""
        return len(self.log)

    def changes_outside(self, since: int, created_at: int) -> bool:
        """True if a change after the first ``since`` ones was of what is older than ``created_at``, or from outside."""
        recent = self.log[since:]
        return any(owner is None or owner.created_at < created_at or not owner.is_created_here() for owner in recent)

    def call_before_graph(self, recipe: Callable[[Reconstructor], Recipe]) -> int:
        """Note a call that the residual program makes before the graph; its position among them.

        A draw of a random number, or a new parameter: the graph takes what it returns.
        """
        self.log.append(None)
        self.before_graph.append(recipe)
        return len(self.before_graph) - 1

    # -- identity ------------------------------------------------------------------------

    def known(self, value: object) -> VariableTracker | None:
        """The tracker that already represents a real object."""
        return self.trackers.get(id(value))

    def remember(self, value: object, tracker: VariableTracker) -> VariableTracker:
        """One object, one tracker: changes through one name show through all."""
        self.trackers[id(value)] = tracker  # a dead object's id may be given to a new one: it is kept alive
        self.alive.append(value)
        return tracker

    def forget(self, value: object) -> None:
        """Take the tracker of a real object away."""
        self.trackers.pop(id(value), None)

    # -- attributes ----------------------------------------------------------------------

    def attribute(self, owner: VariableTracker, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name, or None."""
        return self.attribute_of(owner.identity(), name)

    def attribute_of(self, real: object, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name of a real class, function or module, or None."""
        # By the real object: all trackers of one class or function share its changes.
        change = self.changes_by_tracker.get(id(real))
        return None if change is None else change.attributes.get(name)

    def stored_attributes(self, owner: VariableTracker) -> dict[str, VariableTracker | None]:
        """Everything it stored on an object."""
        change = self.changes_by_tracker.get(id(owner.identity()))
        return {} if change is None else change.attributes

    def moved_attributes(self, owner: VariableTracker) -> set[str]:
        """Names of attributes that it deleted and stored again."""
        change = self.changes_by_tracker.get(id(owner.identity()))
        return set() if change is None else change.moved

    def changed(self, owner: VariableTracker) -> VariableTracker | None:
        """The tracker that represents an object on which it stored something, whichever tracker it was stored on."""
        change = self.changes_by_tracker.get(id(owner.identity()))
        return None if change is None or not change.attributes else change.tracker

    def is_deleted(self, owner: VariableTracker, name: str) -> bool:
        """True if it deleted the attribute."""
        return self.is_deleted_of(owner.identity(), name)

    def is_deleted_of(self, real: object, name: str) -> bool:
        """True if it deleted the attribute of a real class, function or module."""
        change = self.changes_by_tracker.get(id(real))
        return change is not None and name in change.attributes and change.attributes[name] is None

    def store_attribute(self, tracer: Tracer, owner: VariableTracker, name: str, value: VariableTracker) -> None:
        """``owner.name = value``."""
        self._change_attribute(tracer, owner, name, value)

    def delete_attribute(self, tracer: Tracer, owner: VariableTracker, name: str) -> None:
        """``del owner.name``."""
        self._change_attribute(tracer, owner, name, None)

    def _change_attribute(
        self, tracer: Tracer, owner: VariableTracker, name: str, value: VariableTracker | None
    ) -> None:
        thing = None
        if id(owner.identity()) in self.attribute_dicts.shared:
            thing = "object that shares its __dict__ with another"
        elif name == "__dict__":  # all its attributes are others from here on
            thing = "object that gets another __dict__"
        if thing is not None:
            raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, f"{owner.describe()}.{name} = ...", name=thing)
        change = self._change(tracer, owner)
        if value is not None and name in change.attributes and change.attributes[name] is None:
            del change.attributes[name]  # stored again, it comes last
            change.moved.add(name)
        change.attributes[name] = value

    # -- items, cells, globals -----------------------------------------------------------

    def mark_mutated(self, tracer: Tracer, owner: VariableTracker) -> None:
        """The items of a container, or the content of a cell, are about to change."""
        self._change(tracer, owner).items = True

    def _change(self, tracer: Tracer, owner: VariableTracker) -> Change:
        # The check for bodies of operators comes first: what a body may not change must not be recorded.
        tracer.output.may_change(owner)
        self.log.append(owner)
        #     self.calls += 1; xs.append(y); self.done = True
        #     order    self: calls, done | xs       replayed object by object, in the order of their first change
        #     log      self, xs, self               every change, to tell if one came after a certain moment
        change = self.changes_by_tracker.get(id(owner.identity()))
        if change is None:
            change = Change(owner, tracer.stack())
            self.changes_by_tracker[id(owner.identity())] = change
            self.order.append(change)
        return change

    def store_global(
        self, tracer: Tracer, scope: dict[str, object], name: str, value: VariableTracker | None,
        owner: VariableTracker | None = None,
    ) -> None:  # fmt: skip
        """``global name; name = value``; with ``owner``, a module, ``owner.name = value``."""
        tracer.output.may_change(None)
        self.log.append(None)
        # Keyed by the dict of globals, not by the module's name: ``exec`` may run code with any dict.
        key = (id(scope), name)
        known = self.globals.get(key)
        if known is not None and (known.value is not None or value is None):
            known.value = value
            return
        # What was deleted and is stored again comes last: the deletion is replayed, too.
        self.globals.pop(key, None)
        self.globals[key] = GlobalChange(scope, name, value, tracer.stack(), known is not None, owner)
        self.order.append(self.globals[key])

    def load_global(self, scope: dict[str, object], name: str) -> GlobalChange | None:
        """Value that the traced code stored in a global, or None."""
        return self.globals.get((id(scope), name))

    def stored_globals(self, scope: dict[str, object]) -> dict[str, VariableTracker | None]:
        """Everything that it stored in the globals of a module."""
        return {change.name: change.value for change in self.globals.values() if change.scope is scope}
