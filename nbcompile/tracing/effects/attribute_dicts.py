"""Objects whose ``__dict__`` may go about as a dict of its own.

    f(o, o.__dict__)     the dict's id leads to the tracker of o

An object's dict is looked at only once the frame has a plain dict from outside, for to look at it may make it.

In torch: nothing. Read next: nbcompile/tracing/wrapping/attribute_dicts.py
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field

from nbcompile.support.real_class import is_instance
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.lookup import MISSING, class_lookup, instance_dict, keeps_dict_elsewhere


@dataclass(frozen=True, slots=True)
class AttributeOwner:
    """An object from outside that has attributes of its own."""

    value: object
    tracker: VariableTracker

    def members(self) -> dict[str, object] | None:
        """The dict itself; None where it is none, or where only code of the program could say."""
        cls = type(self.value)
        found = class_lookup(cls, "__dict__")
        in_c = isinstance(found, (types.GetSetDescriptorType, types.MemberDescriptorType))
        if not in_c and not (found is MISSING and keeps_dict_elsewhere(cls)):
            return None
        # To read the dict of a partial creates it, and a partial with a dict is another thing.
        if is_instance(self.value, functools.partial) and not self.value.__reduce__()[2][-1]:
            return None
        return instance_dict(self.value)


@dataclass(slots=True)
class AttributeDicts:
    """Record of the objects of one trace by their dicts."""

    plain: set[int] = field(default_factory=set)
    """Ids of dicts from outside that were encountered as dicts."""
    unread: list[AttributeOwner] = field(default_factory=list)
    """Objects whose dict was not looked at."""
    read: list[AttributeOwner] = field(default_factory=list)
    owners: dict[int, AttributeOwner] = field(default_factory=dict)
    """The first object that a dict was seen to belong to, by the dict's id."""
    shared: set[int] = field(default_factory=set)
    """Identities of objects that share their dict with another: what is stored on one shows on the other."""

    def look_at_owners(self) -> list[AttributeOwner]:
        """Look at the dicts of objects that were encountered since, and return those objects."""
        found = []
        for owner in self.unread:
            members = owner.members()
            # The first owner is kept: another object with the same dict is found by the difference.
            if members is not None:
                self.owners.setdefault(id(members), owner)
                found.append(owner)
        self.unread.clear()
        self.read += found
        return found
