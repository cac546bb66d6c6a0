"""Stored forms of guards, with a writer and a reader that only record their calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards, TensorMarks
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings import stored_forms
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES
from nbcompile.record.model import StackLine

K, X, Y = GuardKind, LocalSource("x"), LocalSource("y")


class Writer:
    """A writer that describes an object by its type and its text."""

    def number_of(self, source):
        return [X, Y].index(source)

    def key(self, key):
        return key

    def describe(self, value):
        return [type(value).__name__, str(value)]


@dataclass
class Reader:
    """A reader for a call with one value."""

    data: Any
    now: Any = None
    sources = [X, Y]

    def value(self):
        return self.now

    def key(self, data):
        return data

    def describe(self, value):
        return Writer().describe(value)

    def expect_same(self, now, was):
        if now != was:
            raise Unreadable("another")


def through_json(kind, expected, now=None):
    form = (LEAVES.get(kind) or AMBIENT[kind]).stored
    return form.read(Reader(json.loads(json.dumps(form.write(Guard(X, kind, expected), Writer()))), now))


@pytest.mark.parametrize(("kind", "expected"), [
    (K.SEQUENCE_LENGTH, 3), (K.HASATTR, ("a", False)), (K.RANGE_ITERATOR_MATCH, (0, 3, 1)), (K.DICT_CONTAINS, ("a", True)),
    (K.NO_TENSOR_ALIASING, (X, Y)), (K.OBJECT_ALIASING, Y), (K.DIMENSION_MARKING, TensorMarks((("m", frozenset({1})),), ("n",))),
    (K.SHAPE_ENV, ShapeGuards(("L['x'] == 2",), (X,), ((StackLine("f.py", 1, "f", "x == 2"),),), ("why",))),
])  # fmt: skip
def test_data_alone_gives_the_expectation(kind, expected):
    """An expectation that is written as JSON and read again equals the original."""
    assert through_json(kind, expected) == expected


def test_an_object_is_taken_from_the_call_and_not_from_the_entry():
    """The guard expects the current value if its description is the same; otherwise the entry is not for this call."""
    value = (1, 2)
    assert through_json(K.EQUALS_MATCH, (1, 2), value) is value
    with pytest.raises(Unreadable):
        through_json(K.EQUALS_MATCH, (1, 2), (1, 3))


def test_a_state_that_another_process_cannot_have_is_not_stored():
    """A function mode exists only in this process, so an entry is neither written nor read while one is active."""
    form = AMBIENT[K.TORCH_FUNCTION_MODE_STACK].stored
    assert form.write(Guard(None, K.TORCH_FUNCTION_MODE_STACK, ()), Writer()) == []
    with torch.overrides.BaseTorchFunctionMode():
        with pytest.raises(NotStorable, match="mode is active"):
            stored_forms.function_modes()
        with pytest.raises(Unreadable, match="mode is active"):
            form.read(Reader([]))
