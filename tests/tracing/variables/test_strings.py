"""Strings with tensors: created after the graph, from the tensor's earlier value."""

from __future__ import annotations

import functools
import operator

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

GRAPHS = Graphs()


def _graphs(function: object, *arguments: object) -> tuple[object, int]:
    nbcompile.reset()
    GRAPHS.clear()
    result = nbcompile.compile(function, backend=GRAPHS)(*arguments)
    return result, len(GRAPHS)


def test_text_of_a_tensor_does_not_break_the_graph() -> None:
    """An f-string of a tensor is one graph, with eager mode's text."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x + 1
        return y, f"{{y}} is {y}"

    assert _graphs(f, torch.ones(2))[0][1] == "{y} is tensor([2., 2.])"  # type: ignore[index]
    assert len(GRAPHS) == 1


def test_text_is_of_the_tensor_as_it_was() -> None:
    """A later mutation of the tensor does not change the text."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x + 1
        text = f"{y}"
        y.add_(1)
        return y, text

    assert _graphs(f, torch.ones(2))[0][1] == "tensor([2., 2.])"  # type: ignore[index]


def test_a_cached_function_with_side_effects_runs_once() -> None:
    """The second call of a cached function runs no code."""
    seen: list[int] = []

    @functools.cache
    def noted(n: int) -> int:
        seen.append(n)
        return n

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + noted(3) + noted(3)

    assert torch.equal(_graphs(f, torch.ones(2))[0], torch.full((2,), 7.0))  # type: ignore[arg-type]
    assert seen == [3]


@pytest.mark.parametrize("getter", [operator.itemgetter(0), operator.itemgetter(1, 0), operator.methodcaller("copy")])
def test_getters_from_outside_are_traced(getter: object) -> None:
    """A getter of the operator module is traced, whether it is a global or an argument."""

    def f(xs: list[torch.Tensor], get: object) -> object:
        return get(xs), xs[0] * 2  # type: ignore[operator]

    _, graphs = _graphs(f, [torch.ones(1), torch.zeros(1)], getter)
    assert graphs == 1


def test_text_of_a_number_read_from_a_tensor_does_not_break_the_graph() -> None:
    """A number that is known only after the graph has run is formatted then, with every formatting method."""

    def told(x):
        number, mean = x.sum().int().item(), x.mean().item()
        return x * number, f"{number:3d} {mean!r} {mean:.2f}", str(number), "{:>4}".format(number)  # noqa: UP032

    with nbcompile.config.patch(capture_scalar_outputs=True):
        for x in (torch.ones(2), torch.arange(2.0) + 0.1):
            result, graphs = _graphs(told, x)
            assert result[1:] == told(x)[1:]
            assert graphs == 1
