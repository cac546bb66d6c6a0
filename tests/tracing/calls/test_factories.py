"""Functions that create tensors: in the graph, of numbers known only at run time, and by the old constructors."""

from __future__ import annotations

import pytest
import torch

from tests.support.graphs import agrees, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")
X = torch.linspace(-1, 1, 4)


def test_a_number_in_a_tensor_fills_memory_in_the_graph():
    """``torch.full`` with a tensor as its value is ``empty`` and ``fill_``: the host does not read the tensor."""
    agrees(lambda x: torch.full((2, 3), x.sum()), X, operators="sum empty fill_")
    agrees(lambda x: x + torch.full((4,), 2.5), X)


def test_a_list_with_tensors_is_stacked_in_the_graph():
    """``torch.tensor`` of a list of tensors reads no data on the host."""
    for function in (lambda x: torch.tensor([x[0], 2.0]), lambda x: torch.as_tensor([1.0, 2.0]) + x[0]):
        agrees(function, X)
    _, (operators,) = compiled(lambda x: torch.tensor([x[0], x[1]]) + 1, X, fullgraph=True)
    assert "item" not in operators


@pytest.mark.parametrize("make", [torch.FloatTensor, torch.DoubleTensor, torch.LongTensor, torch.BoolTensor])
def test_old_constructors_make_what_they_made(make):
    """The old constructors create eager mode's tensors from a list."""
    agrees(lambda x: (x + 1, make([0, 1, 2])), X)
