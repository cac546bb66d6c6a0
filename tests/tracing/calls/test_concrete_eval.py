"""The value that a tensor of the graph has in the current call."""

import torch

import nbcompile
from tests.support.graphs import Graphs

ASKED = []


@torch.compiler.assume_constant_result
def largest(x):
    ASKED.append(x.tolist())
    return int(x.max())


def test_it_is_what_the_graph_computes_until_there():
    """The function is called once, while tracing, with the tensor's value in this call; its result is a constant."""
    ASKED.clear()

    def f(x):
        return x * largest(x * 2 + 1)

    graphs = Graphs()
    compiled = nbcompile.compile(f, backend=graphs, fullgraph=True)
    assert compiled(torch.tensor([1.0, 2.0])).tolist() == [5.0, 10.0]
    assert ASKED == [[3.0, 5.0]]
    assert compiled(torch.tensor([1.0, 7.0])).tolist() == [5.0, 35.0]
    assert (len(ASKED), len(graphs)) == (1, 1)


def test_the_programs_own_tensors_are_not_written():
    """The partial graph runs on copies, so a mutation happens only once, when the final graph runs."""

    def f(x):
        x.add_(1)
        return x * largest(x)

    x, y = torch.zeros(2), torch.zeros(2)
    assert torch.equal(nbcompile.compile(f, backend="eager", fullgraph=True)(x), f(y))
    assert torch.equal(x, y)


def test_random_numbers_are_drawn_once():
    """The evaluation while tracing takes no random numbers from the program's generator."""

    def f(x):
        y = x + torch.rand(2)
        return y * (0 * largest(y) + 1), torch.rand(1)

    torch.manual_seed(3)
    expected = f(torch.ones(2))
    torch.manual_seed(3)
    found = nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
