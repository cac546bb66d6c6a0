"""``vars(x)``: an object's attributes as a dict, and a dict's changes as attributes.

    vars(self)["k"] = 3         self.k = 3
    for name in self.__dict__   guards the names, in order

It is a view, not a copy: side_effects records items that are stored through it
under the object, and it has attributes that were stored on the object.

In torch: torch/_dynamo/variables/dicts.py (DunderDictVariable). Read next:
nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterator, MutableMapping

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Recipe
from nbcompile.capture.source import AttrSource
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.mappings import DictVariable, Entry

Look = Callable[[Tracer, str, object], VariableTracker]
"""Function that creates the tracker of an attribute, from the tracer, the attribute's name and its real value."""
IN_C = (types.GetSetDescriptorType, types.MemberDescriptorType)
"""Descriptors that store an attribute outside of the dict: the ``__name__`` of a function, a slot."""


class InstanceDictVariable(DictVariable):
    """The ``__dict__`` of an object."""

    def __init__(
        self, tracer: Tracer, owner: VariableTracker, members: dict[str, object], look: Look | None = None
    ) -> None:
        super().__init__(tracer, [], None if owner.source is None else AttrSource(owner.source, "__dict__"))
        self.owner = owner
        self.members = members
        self.entries = _Attributes(tracer, owner, members, look)  # type: ignore[assignment]

    # Guards are about the dict at the entry of the frame, not about items that were stored since.
    def _guard_keys(self, tracer: Tracer) -> None:
        if self.source is not None:
            tracer.guard(self.source, GuardKind.DICT_KEYS, tuple(self.members))

    def _guard_length(self, tracer: Tracer) -> None:
        if self.source is not None:
            tracer.guard(self.source, GuardKind.DICT_LENGTH, len(self.members))

    def _has(self, tracer: Tracer, key: VariableTracker, looked_up: Hashable) -> bool:
        name = key.hash_key(tracer)
        if self.source is not None and name not in tracer.side_effects.stored_attributes(self.owner):
            tracer.guard(self.source, GuardKind.DICT_CONTAINS, (name, name in self.members))
        return name in self.entries

    def mark_mutated(self, tracer: Tracer) -> None:
        """Do nothing: a change is recorded under the object, attribute by attribute."""

    # The removed attributes depend on the existing ones.
    def method_clear(self, tracer: Tracer) -> None:
        self._guard_keys(tracer)
        super().method_clear(tracer)

    def method_popitem(self, tracer: Tracer, last: VariableTracker | None = None) -> VariableTracker:
        self._guard_keys(tracer)
        return super().method_popitem(tracer, last)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.attribute(reconstruction.recipe(self.owner), "__dict__")


def dict_view_of(
    tracer: Tracer, owner: VariableTracker, members: dict[str, object], look: Look | None = None
) -> DictVariable:
    """The view of a real object's dict: the same one each time."""
    known = tracer.side_effects.known(members)
    if isinstance(known, DictVariable):
        return known
    if type(members) is not dict:
        thing = f"{type(members).__name__} that is the __dict__ of an object"
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, thing, name=thing)
    view = InstanceDictVariable(tracer, owner, members, look)
    if view.source is not None:  # ``o.__dict__ = Dict()`` later: its methods may be the program's own
        tracer.guard(view.source, GuardKind.TYPE_MATCH, dict)
    tracer.side_effects.remember(members, view)
    return view


class _Attributes(MutableMapping[Hashable, Entry]):
    """The entries: real attributes, with changes of the traced code applied."""

    def __init__(self, tracer: Tracer, owner: VariableTracker, members: dict[str, object], look: Look | None) -> None:
        self.tracer = tracer
        self.owner = owner
        self.members = members
        self.look = look

    def _stored(self) -> dict[str, VariableTracker | None]:
        stored = self.tracer.side_effects.stored_attributes(self.owner)
        cls = self.owner.python_type()
        return {name: value for name, value in stored.items() if not isinstance(class_lookup(cls, name), IN_C)}

    def _value(self, name: str) -> VariableTracker:
        stored = self._stored()
        if name in stored:
            found = stored[name]
            if found is None:
                raise KeyError(name)
            return found
        value = self.members[name]
        return self.tracer.wrap(value, None) if self.look is None else self.look(self.tracer, name, value)

    def __getitem__(self, name: Hashable) -> Entry:
        if not isinstance(name, str):
            raise KeyError(name)
        return ConstantVariable(name), self._value(name)

    def __setitem__(self, name: Hashable, entry: Entry) -> None:
        if not isinstance(name, str):
            raise breaks.unsupported(
                breaks.UNSUPPORTED_MUTATION, f"{self.owner.describe()}.__dict__[...] = ...", name="dict"
            )
        # A look-up stores the realised tracker, which is no change of the program's.
        if name not in self or realise(self.tracer, self._value(name)) is not entry[1]:
            self.tracer.side_effects.store_attribute(self.tracer, self.owner, name, entry[1])

    def __delitem__(self, name: Hashable) -> None:
        if name not in self:
            raise KeyError(name)
        self.tracer.side_effects.delete_attribute(self.tracer, self.owner, str(name))

    def __iter__(self) -> Iterator[Hashable]:
        stored = {name: value for name, value in self._stored().items() if value is not None}
        # An attribute that was deleted and set again is at the end, as in a dict.
        gone = self._stored().keys() - stored.keys() | self.tracer.side_effects.moved_attributes(self.owner)
        kept = [name for name in self.members if name not in gone]
        yield from kept
        yield from (name for name in stored if name not in kept)

    def __len__(self) -> int:
        return sum(1 for _ in self)
