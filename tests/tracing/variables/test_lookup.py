"""Attribute lookup on real classes."""

from __future__ import annotations

import collections
import threading

import pytest

from nbcompile.tracing.variables import lookup


class Base:
    rate = 1
    __slots__ = ("slot",)


class Derived(Base):
    own = property(lambda self: 2)

    def __getattribute__(self, name):
        raise AssertionError("the user's look-up ran")


def test_an_entry_is_unbound_and_of_the_first_class_that_has_it():
    """The lookup returns a property itself, not its value; a missing name gives MISSING."""
    assert isinstance(lookup.class_lookup(Derived, "own"), property)
    assert lookup.class_lookup(Derived, "rate") == 1
    assert lookup.class_lookup(Derived, "none") is lookup.MISSING


def test_the_dict_of_an_object_is_read_past_the_users_code():
    """A ``__getattribute__`` in Python does not run; an object without a ``__dict__`` has an empty one."""
    derived = Derived()
    object.__setattr__(derived, "x", 3)
    assert lookup.instance_dict(derived) == {"x": 3}
    assert lookup.instance_dict(5) == {}


@pytest.mark.parametrize(("found", "expected"), [
    (lookup.class_lookup(Derived, "own"), True), (lookup.class_lookup(Base, "slot"), True), (len, False), (3, False),
])  # fmt: skip
def test_properties_and_slots_come_before_the_instances_own(found, expected):
    """Properties and slots are data descriptors; a function and a value are not."""
    assert lookup.is_data_descriptor(found) is expected


def test_a_class_of_python_needs_no_address():
    """A built-in class is assumed not to change; the attributes of a user's class can be guarded."""
    assert lookup.address_of(int) is lookup.address_of(collections.OrderedDict) is None
    assert lookup.address_of(Base) is not None


def test_a_thread_local_object_has_its_attributes_elsewhere():
    """The ``__dict__`` of a ``threading.local`` belongs to the thread, so it is read through its class."""
    assert lookup.keeps_dict_elsewhere(threading.local) and not lookup.keeps_dict_elsewhere(Base)
