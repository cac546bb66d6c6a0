"""Descriptions of the user's objects run no code of the user: a ``repr`` may fail, hang or be endless."""

import enum

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.guarding.values import describe_value
from nbcompile.views import html, text


class Bad:
    def __repr__(self):
        raise AssertionError("the user's repr was run")


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "told"),
    [(Bad(), "<Bad>"), ([1, Bad()], "[1, <Bad>]"), ({"a": Bad()}, "{'a': <Bad>}"), (Colour.RED, "Colour.RED"),
     (2.5, "2.5"), ("it's", '"it\'s"'), (float("nan"), "nan"), (2**100, str(2**100)), (torch.float32, "torch.float32")],
)  # fmt: skip
def test_values_are_described_without_the_users_code(value, told):
    """An object is described by its class, also inside containers."""
    assert describe_value(value) == told


def test_descriptions_are_short():
    """The description is short, whatever the size of the value."""
    assert len(describe_value(list(range(10**6)))) <= 120
    assert len(describe_value("x" * 10**8)) <= 120
    assert len(describe_value(10**400)) <= 120


def test_a_recompilation_for_another_object_is_explained():
    """The record and its views name the class of the object."""
    kept = Bad()

    def choose(x, which):
        return x + 1 if which is kept else x - 1

    compiled, frame_recorder = nbcompile.compile(choose, backend="eager"), api.new_recorder("choose")
    with frame_recorder.listening():
        compiled(torch.ones(2), kept)
        compiled(torch.ones(2), Bad())
    record = frame_recorder.record()
    assert [each.status for each in record.frames] == ["compiled", "compiled"]
    assert "Bad" in text.render(record)
    assert "Bad" in html.render(record)
