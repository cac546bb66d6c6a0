"""Nested tensors: one node each, and one graph for all ragged sizes."""

import torch

import nbcompile
from tests.support.graphs import Graphs


def test_a_constructor_is_one_node():
    """Whatever it does inside; the result is a nested tensor of eager's parts."""

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
    """Rows of other lengths, as long as they are as many: after the second call, which finds that lengths differ."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: x.sin() + 1, backend=graphs, fullgraph=True)
    for lengths in ([2, 3], [4, 1], [7, 7], [9, 1]):
        x = torch.nested.nested_tensor([torch.randn(length, 3) for length in lengths], layout=torch.jagged)
        found = compiled(x)
        assert all(torch.equal(one, other.sin() + 1) for one, other in zip(found.unbind(), x.unbind(), strict=True))
    assert len(graphs) == 2


def test_padding_is_one_node():
    """To a tensor of an ordinary layout."""

    def f(x):
        return torch.nested.to_padded_tensor(x, 0.5)

    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    assert torch.equal(nbcompile.compile(f, backend="eager", fullgraph=True)(x), f(x))
