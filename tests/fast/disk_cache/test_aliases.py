"""Outputs that are inputs or views of inputs have the same property in a later process."""

from __future__ import annotations

import pytest
import torch

PROGRAM = """
import torch
def f(x):
    return {}, x * 2
"""
VIEWS = [
    "x",
    "x[1:]",
    "x.t()",
    "x.view(-1)",
    "x[:, None, 1]",
    "x.diagonal()",
    "x.unfold(0, 2, 1)",
    "x.expand(2, 3, 4)",
    "x.detach()",
    "x.split(2, 1)[1][:, 0]",
]


def example(learns: bool) -> torch.Tensor:
    """A tensor that does not begin at the start of its memory."""
    base = torch.arange(15.0)
    return base[3:].view(3, 4).requires_grad_(learns)


@pytest.mark.parametrize("learns", [False, True], ids=["", "learns"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_an_input_is_loaded(process, view, learns):
    """Memory, layout, gradients and mutations through the view are eager mode's."""
    for attempt in range(2):
        run = process(PROGRAM.format(view))
        x, other = example(learns), example(learns)
        (found, twice), (wanted, both) = run.call("f", x), run.module.f(other)
        assert run.loaded == [bool(attempt)], run.reasons
        torch.testing.assert_close((found, twice), (wanted, both))
        assert (found is x) == (wanted is other)
        assert found.data_ptr() - x.data_ptr() == wanted.data_ptr() - other.data_ptr()
        assert (found.shape, found.stride(), found.requires_grad) == (
            wanted.shape,
            wanted.stride(),
            wanted.requires_grad,
        )
        if learns:
            for result, given in (((found, twice), x), ((wanted, both), other)):
                sum(each.pow(2).sum() for each in result).backward()
            torch.testing.assert_close(x.grad, other.grad)
        else:
            found.copy_(found.clone() + 1) if "expand" not in view and "unfold" not in view else None
            wanted.copy_(wanted.clone() + 1) if "expand" not in view and "unfold" not in view else None
            torch.testing.assert_close(x, other)
            assert x._version == other._version


@pytest.mark.parametrize("view", ["torch.view_as_complex(x)", "x.view(torch.int32)"])
def test_a_view_that_is_more_than_a_layout(process, view):
    """Sizes and strides do not describe a view with another dtype; a later process calls its operator."""
    for attempt in range(2):
        run = process(PROGRAM.format(view))
        x = torch.arange(4.0).view(2, 2)
        torch.testing.assert_close(run.call("f", x), run.module.f(x))
        assert run.loaded == [bool(attempt)]


WRITTEN = """
import torch
def f(x):
    x.add_(1)
    return x[1:], x, x * 2
def g(x):
    return x.view(-1), x[0].detach(), x.sum()
"""


def test_a_view_of_an_input_that_is_written(process):
    """The view shows the values that generated code wrote, and later mutations, also in a later process."""
    for attempt in range(2):
        run = process(WRITTEN)
        x, other = torch.zeros(3), torch.zeros(3)
        found, wanted = run.call("f", x), run.module.f(other)
        x.mul_(3)
        other.mul_(3)
        torch.testing.assert_close(found, wanted)
        assert found[1] is x
        assert found[0]._version == wanted[0]._version
        assert run.loaded == [bool(attempt)]


def test_views_of_sizes_that_vary(process):
    """Views of varying sizes have eager mode's gradients; a detached view has none."""
    for attempt in range(2):
        run = process(WRITTEN)
        for size in (2, 3, 4):
            x, other = (torch.arange(float(size * 2)).view(size, 2).requires_grad_() for _ in range(2))
            found, wanted = run.call("g", x), run.module.g(other)
            torch.testing.assert_close(found, wanted)
            assert [each.requires_grad for each in found] == [each.requires_grad for each in wanted]
            (found[0].sin().sum() + found[2]).backward()
            (wanted[0].sin().sum() + wanted[2]).backward()
            torch.testing.assert_close(x.grad, other.grad)
        assert set(run.loaded) == {bool(attempt)}, run.reasons


@pytest.mark.parametrize("is_view", [False, True], ids=["", "of a view"])
def test_a_view_made_without_gradients_is_a_leaf_in_a_later_process(process, is_view):
    """The view in loaded code is a leaf and passes no gradient to its base, as in eager mode."""
    text = "import torch\ndef f(x):\n    with torch.no_grad():\n        y = x[1:]\n    return y, x * 2\n"
    for attempt in range(2):
        run = process(text)
        x = example(learns=True) if is_view else example(learns=False).clone().requires_grad_()
        view, twice = run.call("f", x)
        assert run.loaded == [bool(attempt)], run.reasons
        (view.sum() + twice.sum()).backward()
        assert view.is_leaf and view.requires_grad is not is_view and view._is_view()
        assert torch.equal(view, x.detach()[1:])
        assert torch.equal(x.grad, torch.full((3, 4), 2.0))
