"""Sentences about the difference between an answer and the reference."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from nbcompile.teach.attempt import Rejection
from nbcompile.teach.comparison import describe_difference, expect_equal


class Plain:
    """A class that is compared by its attributes."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.nan], torch.tensor([math.nan, 1.0]), math.inf, torch.empty(0), {"a": (1, None)}, Plain(Plain(2)),
     object(), torch.tensor([True, False]), 1j, torch.tensor(1 + 2j), {torch.float32}, torch.float32],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_is_equal_to_its_copy(value):
    """NaN, and objects without __eq__, equal their copies."""
    assert describe_difference(copy.deepcopy(value), value) == ""


def test_numbers_differ_by_more_than_rounding():
    """Python floats and elements may differ by rounding, because additions may be reordered."""
    assert describe_difference(0.1 + 0.2, 0.3) == "" == describe_difference(torch.tensor(0.1 + 0.2), torch.tensor(0.3))
    assert describe_difference(1.001, 1.0) == "expected 1.0, got 1.001"
    assert describe_difference(math.nan, 1.0) and describe_difference(1.0, math.nan)
    assert describe_difference(math.inf, 1e308) and describe_difference(-math.inf, math.inf)


def test_whole_numbers_are_not_rounded():
    """An integer that is off by one differs, in a tensor and as a number."""
    says = describe_difference(torch.tensor([100_001]), torch.tensor([100_000]))
    assert says == "expected [100000], got [100001]"
    assert describe_difference(100_001, 100_000) == "expected 100000, got 100001"


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (None, torch.ones(1), "expected a value of type Tensor, got None"),
        (True, 1, "expected a value of type int, got a value of type bool"),
        ([1, 2], [1], "expected length 1, got 2"),
        ((1, [2, 3]), (1, [2, 4]), "expected 4, got 3"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "expected the keys ['b', 'a'], got ['a', 'b']"),
        (torch.ones(2, 1), torch.ones(2), "expected a tensor with shape (2,), got (2, 1)"),
        (torch.ones(1), torch.ones(1).double(), "expected a tensor with dtype torch.float64, got torch.float32"),
        (torch.ones(1), torch.ones(1, requires_grad=True), "expected a tensor with requires_grad True, got False"),
        (torch.arange(5.0), torch.arange(5.0) + 1, "expected [1, 2, 3, 4, ...], got [0, 1, 2, 3, ...]"),
        (Plain(1), Plain(2), "expected 2, got 1"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_differs(actual, expected, says):
    """The sentence names a difference of type, then of size, then of value."""
    assert describe_difference(actual, expected) == says


def test_the_call_that_differs_is_named():
    """With several calls the sentence has the call's number, for output and mutated arguments, too."""

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
        (mutates, "argument 1 is wrong after call 1: expected [0], got [1]."),
        (prints, r"call 1 prints the wrong text: expected nothing, got 'half way\n'."),
        (second, "call 2: expected [2], got [1]."),
    ]:
        with pytest.raises(Rejection) as rejected:
            expect_equal(wrong, f, calls)
        assert str(rejected.value) == says
    expect_equal(prints, f, calls, prints=False)
