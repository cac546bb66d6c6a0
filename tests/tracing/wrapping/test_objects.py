"""Classes, modules, and objects of the user's classes from outside."""

from __future__ import annotations

import collections
import random
import types
import weakref

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nbcompile.capture.guard import GuardKind
from nbcompile.tracing import breaks
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.function_modes import FunctionModeVariable
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.random_numbers import RandomVariable
from nbcompile.tracing.variables.self_dicts import SelfDictVariable
from tests.tracing.frame.wrapped import wrapped


class Plain:
    pass


class Listed(list):  # type: ignore[type-arg]
    pass


class Numbered(int):
    pass


class OwnDict(dict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.__dict__ = self


class Counting(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 3


class Mode(TorchFunctionMode):
    pass


KINDS = [
    (Plain(), ObjectVariable), (OwnDict(), SelfDictVariable), (Mode(), FunctionModeVariable),
    (random.Random(1), RandomVariable), (torch.nn.Linear(2, 2), NNModuleVariable),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_tracker_of_an_object(value, kind):
    """The tracker depends on the class, which is guarded."""
    tracker, guards = wrapped(value)
    assert type(tracker) is kind
    assert tracker.python_type() is type(value)
    assert (GuardKind.TYPE_MATCH, type(value)) in guards


def test_only_some_trackers_follow_an_assignment_to_the_class():
    """The class of a plain object or a module can change; the trackers of the other objects have a fixed class."""
    assert [wrapped(value)[0].has_fixed_class for value, _ in KINDS] == [False, True, True, True, False]


def test_an_object_of_a_subclass_has_the_built_in_part():
    """A list subclass has its items, and an int subclass its plain number."""
    items, number = wrapped(Listed([1, 2]))[0].base_items, wrapped(Numbered(7))[0].base_items
    assert len(items.items) == 2
    assert type(number.constant()) is int
    assert number.constant() == 7


def test_a_container_that_counts_its_items_itself_is_passed_on():
    """A guard on the length would call ``__len__`` of the class."""
    tracker, guards = wrapped(Counting([1]))
    assert not isinstance(tracker, ObjectVariable)
    assert GuardKind.SEQUENCE_LENGTH not in [kind for kind, _ in guards]


def test_classes_and_modules_are_guarded_by_identity():
    """Another class or module with the same members fails the guard."""
    module = types.ModuleType("of_nobody")
    for value in (Plain, module, list[int]):
        _, guards = wrapped(value)
        assert guards == [(GuardKind.ID_MATCH, value)]
    assert isinstance(wrapped(Plain)[0], ClassVariable)


def test_a_weak_reference_leads_to_its_object_when_it_is_called():
    """The class is guarded; the object is read only if the reference is called."""
    value = Plain()
    _, guards = wrapped(weakref.ref(value))
    assert guards == [(GuardKind.TYPE_MATCH, weakref.ref)]


def test_recurrent_and_empty_modules_are_rejected():
    """A recurrent module and a module without ``__init__`` break the graph."""
    for value, message in ((torch.nn.LSTM(2, 2), "LSTM"), (object.__new__(torch.nn.Linear), "Linear")):
        with pytest.raises(breaks.Unsupported, match=message):
            wrapped(value)


def test_a_named_tuple_is_no_object_of_a_user():
    """A named tuple is a sequence."""
    pair = collections.namedtuple("pair", "a b")  # noqa: PYI024 - a class without annotations
    assert not isinstance(wrapped(pair(1, 2))[0], ObjectVariable)
