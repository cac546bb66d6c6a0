"""Graphs that the inference tracer takes, and those that are left to AOTAutograd."""

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
"""AOTAutograd makes these functional."""


@pytest.mark.parametrize("function", [*LEFT, other_memory], ids=lambda each: each.__name__)
def test_what_else_is_written_is_left_to_others(function):
    """Views of what is written, an input that is a result, and operators that change what a tensor is."""
    assert recorded(function, allow_mutation=True) is None


@pytest.mark.parametrize("function", RECORDED, ids=lambda each: each.__name__)
def test_writes_are_refused_where_nobody_asks_for_them(function):
    """A backend that wants functional graphs alone gets them from AOTAutograd."""
    assert recorded(function) is None
