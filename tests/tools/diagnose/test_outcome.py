"""Outcomes of a run, and their differences."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tools.diagnose.outcome import Outcome, copied, difference, run, run_eagerly


def test_an_outcome_has_results_arguments_and_gradients():
    """The outcome has results, mutated arguments and gradients; the caller's tensors are unchanged."""
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)

    def function(x, w):
        x.add_(1)
        return (x * w).sum()

    values = run(function, (x, w)).values
    assert [value.tolist() for value in values] == [4.0, [2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]
    assert x.tolist() == [1.0, 1.0] and w.grad is None


def test_an_exception_is_an_outcome():
    """The outcome has the exception's class and first line; another exception is a difference."""
    failed = run([].pop, ())
    assert failed.error == "IndexError: pop from empty list"
    assert "no exception" in difference(failed, Outcome(values=(1,)))
    assert difference(failed, failed) == ""


@pytest.mark.parametrize(("found", "expected", "differs"), [
    (1, True, True),
    (float("nan"), float("nan"), False),
    (0.0, -0.0, True),
    (torch.ones(2), torch.ones(2) + 1e-7, False),
    (torch.ones(2), torch.ones(2) + 1e-3, True),
    (torch.tensor([1, 2]), torch.tensor([1, 3]), True),
    (torch.tensor([torch.inf]), torch.tensor([torch.nan]), False),
    (torch.tensor([torch.inf]), torch.tensor([1.0]), True),
    (torch.ones(2), torch.ones(2).double(), True),
])  # fmt: skip
def test_rounding_is_no_difference_and_everything_else_is(found, expected, differs):
    """Types, bits of numbers, and errors above the dtype's precision are differences."""
    assert bool(difference(Outcome((expected,)), Outcome((found,)))) is differs


def test_a_result_that_two_calls_give_otherwise_is_nothing_to_compare_with():
    """A function that counts its calls depends on more than its arguments, and is rejected."""
    calls = []
    with pytest.raises(ValueError, match="two calls in eager mode differ"):
        run_eagerly(lambda: calls.append(1) or len(calls), (), {})


def test_a_copy_has_the_strides_of_the_original():
    """A copy has the same strides, because other strides are another program for a compiler."""
    x = torch.ones(3, 2).t().requires_grad_()
    (copy,) = copied((x,))
    assert copy.stride() == (1, 2) and copy.requires_grad and copy.data_ptr() != x.data_ptr()
