"""Sentences about how an answer differs from what is right."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from nbcompile.teach.attempt import Refusal
from nbcompile.teach.comparison import describe_difference, expect_equal


class Plain:
    """Compared by its attributes."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.nan], torch.tensor([math.nan, 1.0]), math.inf, torch.empty(0), {"a": (1, None)}, Plain(Plain(2)),
     object(), torch.tensor([True, False]), 1j, torch.tensor(1 + 2j), {torch.float32}, torch.float32],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_is_equal_to_its_copy(value):
    """Also NaN, which Python says differs from itself, and objects without an equality of their own."""
    assert describe_difference(copy.deepcopy(value), value) == ""


def test_numbers_differ_by_more_than_rounding():
    """Of a Python float as of an element of a tensor: another order of additions is no other result."""
    assert describe_difference(0.1 + 0.2, 0.3) == "" == describe_difference(torch.tensor(0.1 + 0.2), torch.tensor(0.3))
    assert describe_difference(1.001, 1.0) == "1.001, and 1.0 is expected"
    assert describe_difference(math.nan, 1.0) and describe_difference(1.0, math.nan)
    assert describe_difference(math.inf, 1e308) and describe_difference(-math.inf, math.inf)


def test_whole_numbers_are_not_rounded():
    """A large count that is one too high is wrong, in a tensor as in a number."""
    says = describe_difference(torch.tensor([100_001]), torch.tensor([100_000]))
    assert says == "[100001], and [100000] is expected"
    assert describe_difference(100_001, 100_000) == "100001, and 100000 is expected"


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (None, torch.ones(1), "None, and a value of type Tensor is expected"),
        (True, 1, "a value of type bool, and a value of type int is expected"),
        ([1, 2], [1], "2 values, and 1 are expected"),
        ((1, [2, 3]), (1, [2, 4]), "3, and 4 is expected"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the keys ['a', 'b'], and ['b', 'a'] are expected"),
        (torch.ones(2, 1), torch.ones(2), "a tensor with shape (2, 1), and (2,) is expected"),
        (torch.ones(1), torch.ones(1).double(), "a tensor with dtype torch.float32, and torch.float64 is expected"),
        (torch.ones(1), torch.ones(1, requires_grad=True), "a tensor with requires_grad False, and True is expected"),
        (torch.arange(5.0), torch.arange(5.0) + 1, "[0, 1, 2, 3, ...], and [1, 2, 3, 4, ...] is expected"),
        (Plain(1), Plain(2), "1, and 2 is expected"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_differs(actual, expected, says):
    """The type first, then the sizes, then the values."""
    assert describe_difference(actual, expected) == says


def test_the_call_that_differs_is_named():
    """With several calls its number; what is printed and what is left of the arguments belongs to it."""

    def f(x):
        return x + 1

    def mutates(x):
        return x.add_(1)

    def prints(x):
        print("half way")
        return x + 1

    def second(x):
        return x + 1 if x.sum() == 0 else x

    calls = [(torch.zeros(1),), (torch.ones(1),)]
    expect_equal(f, f, calls)
    assert torch.equal(calls[0][0], torch.zeros(1)), "functions are called with copies"
    for wrong, says in [
        (mutates, "call 1 leaves its argument 1 changed: it is [1], and [0] is expected."),
        (prints, r"call 1 prints 'half way\n', and nothing is expected."),
        (second, "call 2 returns [1], and [2] is expected."),
    ]:
        with pytest.raises(Refusal) as refused:
            expect_equal(wrong, f, calls)
        assert str(refused.value) == says
    expect_equal(prints, f, calls, prints=False)
