"""Graphs that the inference tracer accepts, and those that it leaves to AOTAutograd."""

from __future__ import annotations

import pytest

from tests.fast.test_inference_tracer import (
    RECORDED,
    given_back,
    other_shape,
    recorded,
    through_a_view,
    viewed_before,
)


def other_memory(x, y):
    x.set_(y)


LEFT = (through_a_view, viewed_before, given_back, other_shape)
"""Functions that AOTAutograd makes functional."""


@pytest.mark.parametrize("function", [*LEFT, other_memory], ids=lambda each: each.__name__)
def test_what_else_is_written_is_left_to_others(function):
    """Views of mutated tensors, inputs as results, and operators that change a tensor's properties are rejected."""
    assert recorded(function, allow_mutation=True) is None


@pytest.mark.parametrize("function", RECORDED, ids=lambda each: each.__name__)
def test_writes_are_rejected_where_nobody_asks_for_them(function):
    """A backend that needs functional graphs gets them from AOTAutograd."""
    assert recorded(function) is None
