"""Nested tensors: one node for each operation, and one graph for all ragged sizes."""

import torch

import nbcompile
from tests.support.graphs import Graphs


def test_a_constructor_is_one_node():
    """The constructor is a single node of the graph, and the parts of its result equal eager mode's."""

    def f(values, offsets):
        return torch.nested.nested_tensor_from_jagged(values, offsets) * 2

    graphs = Graphs()
    compiled = nbcompile.compile(f, backend=graphs, fullgraph=True)
    values, offsets = torch.randn(5, 3), torch.tensor([0, 2, 5])
    found, expected = compiled(values, offsets), f(values, offsets)
    assert found.layout is torch.jagged
    assert all(torch.equal(one, other) for one, other in zip(found.unbind(), expected.unbind(), strict=True))
    assert len(graphs.operators[0].split()) == 2


def test_another_ragged_size_is_the_same_graph():
    """Rows with other lengths reuse the second graph, as long as the number of rows is the same."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: x.sin() + 1, backend=graphs, fullgraph=True)
    for lengths in ([2, 3], [4, 1], [7, 7], [9, 1]):
        x = torch.nested.nested_tensor([torch.randn(length, 3) for length in lengths], layout=torch.jagged)
        found = compiled(x)
        assert all(torch.equal(one, other.sin() + 1) for one, other in zip(found.unbind(), x.unbind(), strict=True))
    assert len(graphs) == 2


def test_padding_is_one_node():
    """``to_padded_tensor`` returns a tensor with an ordinary layout, in one graph."""

    def f(x):
        return torch.nested.to_padded_tensor(x, 0.5)

    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    assert torch.equal(nbcompile.compile(f, backend="eager", fullgraph=True)(x), f(x))
