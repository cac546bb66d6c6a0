"""Tests for the inlining of nested regions, and for their equality."""

import pytest
import torch
import torch.fx

import nbcompile
from nbcompile.capture import nested_regions
from tests.support.graphs import Graphs


@torch.compiler.nested_compile_region
def region(a, b):
    return torch.sin(a) * b


@torch.compiler.nested_compile_region
def around(a):
    return region(a, a) + region(a, a + 1)


@torch.compiler.nested_compile_region
def writes(a):
    a.mul_(2)
    return a + 1


def twice(x):
    return region(x, x + 1) + region(x + 2, x)


def nested(x):
    return around(x) + around(x * 2)


def writes_twice(x):
    y = x.clone()
    return writes(y) + writes(y), y


@torch.compiler.nested_compile_region
def several(a):
    b = a * 2
    return b, (b + 1, a - 1)


def chained(x):
    return region(region(region(x, x), x + 1), x)


def chained_and_nested(x):
    return around(around(x)), around(x)


def chained_results(x):
    one, (two, three) = several(x)
    four, (five, _) = several(two)
    six, _ = several(five + one)
    return four, three, six, several(x)[0]


def captured(function, *arguments):
    """The graph of a function that a backend receives."""
    graphs = Graphs()

    nbcompile.compile(function, backend=graphs, fullgraph=True)(*arguments)
    return graphs[0]


def calls(module):
    """The number of region calls in a graph and its bodies."""
    return sum(
        len(child.graph.find_nodes(op="call_function", target=nested_regions.INVOKE))
        for child in module.modules()
        if isinstance(child, torch.fx.GraphModule)
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [twice, nested, writes_twice, chained, chained_and_nested, chained_results])
@pytest.mark.parametrize("trained", [False, True])
def test_every_backend_runs_regions(function, backend, trained):
    """Results and gradients of regions are eager mode's, with every backend of nbcompile."""
    x = torch.randn(2, 3, requires_grad=trained)
    expected = function(x)
    given = nbcompile.compile(function, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(given, expected)
    if trained:
        ours, theirs = (
            torch.autograd.grad(torch.utils._pytree.tree_leaves(result)[0].sum(), x) for result in (given, expected)
        )
        torch.testing.assert_close(ours, theirs)


def test_equal_regions_share_a_graph():
    """Calls of a region with inputs of the same kind use one attribute of the graph."""
    module = captured(twice, torch.randn(2, 3))
    assert calls(module) == 2
    assert len({node.target for node in module.graph.find_nodes(op="get_attr")}) == 1


def test_a_single_call_is_inlined():
    """A region that is called once is inlined, and leaves no attribute behind."""
    module = captured(lambda x: region(x, x), torch.randn(2, 3))
    assert calls(module) == 0
    assert not list(module.children())


def test_inlined_copies_leave_the_original_as_it_is():
    """A backend that inlines regions does not change its input graph."""
    module = captured(nested, torch.randn(2, 3))
    before = calls(module)
    flat = nested_regions.with_inlined_regions(module)
    assert before > 0
    assert calls(flat) == 0
    assert calls(module) == before
    x = torch.randn(2, 3)
    torch.testing.assert_close(flat(x)[0], nested(x))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x * 1, lambda x: x * 1.0),
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x + 1, lambda x: x - 1),
        (lambda x: x[:1], lambda x: x[:2]),
        (lambda x: x.sum(0), lambda x: x.sum(dim=0)),
    ],
)
def test_graphs_with_other_operators_or_constants_differ(one, other):
    """Constants are compared with their types and signs, which equality of numbers ignores."""
    graphs = [torch.fx.symbolic_trace(function).graph for function in (one, one, other)]
    for graph in graphs:
        next(iter(graph.nodes)).meta["example_value"] = torch.ones(3)
    assert nested_regions.are_equal(graphs[0], graphs[1])
    assert not nested_regions.are_equal(graphs[0], graphs[2])


@pytest.mark.parametrize(
    "other",
    [torch.ones(4), torch.ones(3, dtype=torch.float64), torch.ones(6)[::2], torch.ones(3, requires_grad=True), 3],
)
def test_graphs_of_other_inputs_differ(other):
    """The size, dtype, strides and ``requires_grad`` distinguish inputs."""
    graphs = [torch.fx.symbolic_trace(lambda x: x + 1).graph for _ in range(2)]
    for graph, example in zip(graphs, (torch.ones(3), other), strict=True):
        next(iter(graph.nodes)).meta["example_value"] = example
    assert not nested_regions.are_equal(*graphs)
