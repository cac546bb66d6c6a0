"""The owners of a dict are looked up late, and without creating ``__dict__`` of an object."""

from __future__ import annotations

import functools
import types

from nbcompile.tracing.effects.attribute_dicts import AttributeDicts, AttributeOwner
from nbcompile.tracing.variables.base import UnknownVariable


def owner(value: object) -> AttributeOwner:
    """An object with a tracker."""
    return AttributeOwner(value, UnknownVariable(value, None))


def test_dict_leads_to_the_first_owner() -> None:
    """An object is found by its ``__dict__`` after the lookup; the first one is found if two share it."""
    first, second = types.SimpleNamespace(a=1), types.SimpleNamespace()
    dicts = AttributeDicts(unread=[owner(first), owner(second)])
    assert dicts.owners == {}
    assert [found.value for found in dicts.look_at_owners()] == [first, second]
    assert dicts.owners[id(vars(first))].value is first
    assert dicts.look_at_owners() == []


def test_dict_of_a_partial_is_not_made() -> None:
    """The lookup does not create a ``__dict__`` for a partial; a partial with attributes already has one."""
    plain, named = functools.partial(print), functools.partial(print)
    named.tag = 1  # type: ignore[attr-defined]
    assert owner(plain).members() is None
    assert plain.__reduce__()[2][-1] is None  # type: ignore[index]
    assert owner(named).members() is named.__dict__


def test_attribute_of_the_program_is_not_asked() -> None:
    """A ``__dict__`` property that a class defines in Python is not called."""

    class Own:
        """A class with its own ``__dict__`` property."""

        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            raise AssertionError

    assert owner(Own()).members() is None
