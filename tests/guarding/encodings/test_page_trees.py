"""Constants in a page: two have the same text exactly if guards treat them as the same."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from nbcompile.guarding.encodings.page_trees import NotExpressible, spelled
from nbcompile.guarding.values import is_same_value

CONSTANTS = [
    1, True, 1.0, 0.0, -0.0, "1", b"1", None, (1,), (True,), (1.0,), 1j, slice(1, 2), slice(1, 2, True), torch.float32,
    torch.Size([1]), range(3), frozenset({1, 2}), frozenset({2}), ..., "nan", math.nan,
    frozenset({1, 2.0}), frozenset({1.0, 2}), frozenset({0.0}), frozenset({-0.0}), frozenset({(0.0,)}), frozenset({(0,)}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CONSTANTS, 2)), ids=repr)
def test_two_constants_are_spelled_alike_exactly_if_they_are_the_same(one, other):
    """``1``, ``True`` and ``1.0`` have different texts, and so do the signs of zero, also inside containers."""
    assert (spelled(one) == spelled(other)) is is_same_value(other, one)


def test_equal_sets_are_spelled_alike():
    """The text does not depend on the order of a set, which follows the hashes and differs between processes."""
    assert spelled(frozenset("abc")) == spelled(frozenset("cba"))


@pytest.mark.parametrize("value", [object(), [1], "a" * 300, (object(),)], ids=["object", "list", "long", "tuple"])
def test_what_cannot_be_spelled_is_rejected(value):
    """A value that is no short constant raises an error; the page uses the result of the predicate instead."""
    with pytest.raises(NotExpressible):
        spelled(value)
