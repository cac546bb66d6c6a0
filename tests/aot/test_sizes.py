"""Nodes for symbolic sizes: formulas become Python's operators over the graph's inputs."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from hypothesis import given, settings, strategies as st

import nbcompile
from nbcompile import torch_internals
from nbcompile.aot.sizes import SizeNodes, UnknownSize
from tests.support.processes import python


def symbols(*values):
    """Symbolic sizes with these hints, in one ShapeEnv."""
    shapes = torch_internals.symbolic_shapes()
    mode = torch_internals.fake_tensor().FakeTensorMode(shape_env=shapes.ShapeEnv())
    return [mode.from_tensor(torch.empty(each), static_shapes=False).shape[0] for each in values]


def graph_with(numbers):
    graph = torch.fx.Graph()
    sizes = SizeNodes(graph)
    for at, number in enumerate(numbers):
        sizes.define(number, graph.placeholder(f"s{at}"))
    return graph, sizes


OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - b,
    lambda a, b: a // (b * b + 1),
    lambda a, b: a % (b * b + 1),
    torch.sym_max,
    torch.sym_min,
    lambda a, b: 3 * a - 7,
    lambda a, b: a**2,
)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5
    ),
    values=st.tuples(st.integers(2, 50), st.integers(2, 50)),
)
def test_a_formula_computes_what_its_symbols_compute(steps, values):
    """The nodes of a formula over two sizes compute the number that Python's operators give."""
    first, second = symbols(7, 11)
    graph, sizes = graph_with([first, second])
    made, plain = [first, second], list(values)
    for operation, left, right in steps:
        made.append(operation(made[left % len(made)], made[right % len(made)]))
        plain.append(operation(plain[left % len(plain)], plain[right % len(plain)]))
    try:
        results = [sizes.node_of(each, lambda node: None) if isinstance(each, torch.SymInt) else each for each in made]
    except UnknownSize:
        return  # the rejection is explicit, and AOTAutograd traces such a graph
    graph.output(tuple(results))
    assert torch.fx.GraphModule({}, graph)(*values) == tuple(plain)
    assert all("val" in node.meta for node in graph.nodes if node.op == "call_function")


def test_equal_sizes_are_one_node():
    """A size that two operators use is computed once."""
    first, second = symbols(7, 11)
    graph, sizes = graph_with([first, second])
    written = []
    assert sizes.node_of(first * second, written.append) is sizes.node_of(second * first, written.append)
    assert len(written) == 1


def test_an_unknown_symbol_is_rejected():
    """A symbol that is no input cannot be computed."""
    first, second = symbols(7, 11)
    _, sizes = graph_with([first])
    with pytest.raises(UnknownSize):
        sizes.node_of(first + second, lambda node: None)


def windows(x, y):
    return torch.cat([x.view(-1, 2 * y.shape[0])[:, 1 : y.shape[0]].sum(0), y]), torch.zeros(x.shape[0] // 2)


def numbers(x, y):
    return x + 1, x.shape[0] * 3 + y.shape[0], (x.shape[0] + 1) ** 2


def powers(x, y):
    return x.new_ones(x.shape[0] * x.shape[0] * y.shape[0]).cumsum(0), max(x.shape[0], 3 * y.shape[0]) * y


def reshaped(x, y):
    return x.reshape(y.shape[0], -1).softmax(0).expand(3, -1, -1).contiguous(), y.repeat(x.shape[0])


@pytest.mark.parametrize("function", [windows, numbers, powers, reshaped], ids=lambda each: each.__name__)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_results_with_symbolic_sizes(function, backend):
    """Graphs with computed sizes give eager's results, also for sizes other than those of the first call."""
    compiled = nbcompile.compile(function, backend=backend, dynamic=True)
    for rows, width in ((8, 6), (10, 6), (12, 4), (30, 5)):
        x, y = torch.randn(rows, width), torch.randn(width)
        torch.testing.assert_close(compiled(x, y), function(x, y))


SECOND_SIZE = """
import sys, torch, nbcompile
function = nbcompile.compile(lambda x: torch.relu(x).mul(x.shape[0]) + 1)
for size in (4, 5, 6):
    x = torch.randn(size)
    torch.testing.assert_close(function(x), torch.relu(x).mul(size) + 1)
print("torch._functorch.aot_autograd" in sys.modules)
"""


@pytest.mark.fast_path
def test_a_second_size_does_not_import_autograds_tracer():
    """Graphs with symbolic sizes and without gradients are traced without AOTAutograd, whose import takes 1.4 s."""
    assert python(SECOND_SIZE).strip() == "False"


def test_outputs_have_their_dynamic_sizes_marked():
    """The outputs' dynamic dims are marked, as AOTAutograd does, so that the next graph need not recompile."""
    compiled = nbcompile.compile(lambda x: (torch.relu(x), x.sum(0)), dynamic=True)
    whole, rows = compiled(torch.randn(5, 7))
    assert whole._dynamo_propagated_dynamic_indices == {0, 1}
    assert rows._dynamo_propagated_dynamic_indices == {0}
