"""Operators that call their only function argument: their nodes, their keywords and their errors."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import errors
from nbcompile.capture import nested_regions
from tests.support.graphs import Graphs

pytestmark = pytest.mark.usefixtures("nothing_compiled")
OPERATORS = torch.ops.higher_order
X, Y = torch.linspace(-1, 1, 3), torch.full((3,), 2.0)


def captured(function, *arguments):
    """The only graph of a function."""
    graphs = Graphs()
    nbcompile.compile(function, backend=graphs, fullgraph=True)(*arguments)
    (module,) = graphs
    return module


def node_of(module, operator):
    (node,) = module.graph.find_nodes(op="call_function", target=operator)
    return node


@pytest.mark.parametrize("name", ["wrap", "strict_mode", "hints_wrapper"])
def test_a_region_means_what_a_call_means(name):
    """The result is the function's; the graph contains the operator, and the function as its body."""

    def g(a):
        return a.sin() + 1, a * 2

    def f(x):
        if name == "wrap":
            return OPERATORS.wrap(g, x)
        if name == "strict_mode":
            return OPERATORS.strict_mode(g, (x,))
        return OPERATORS.hints_wrapper(g, (x,), {}, hints={"level": 3})

    graphs = Graphs()
    actual = nbcompile.compile(f, backend=graphs, fullgraph=True)(X)
    torch.testing.assert_close(tuple(actual), g(X))
    assert graphs.operators == [name]


def test_hints_are_a_keyword_of_the_operator():
    """The hints are constants, in the order in which the program gives them."""

    def f(x):
        return OPERATORS.hints_wrapper(lambda a: a + 1, (x,), {}, hints={"level": 3, "name": "n"})

    node = node_of(captured(f, X), OPERATORS.hints_wrapper)
    assert node.kwargs == {"hints": {"level": 3, "name": "n"}}
    assert node.args[2] == {}


def hints_in_a_list(x):
    return OPERATORS.hints_wrapper(lambda a: a + 1, (x,), {}, hints=[1])


def with_keywords(x):
    return OPERATORS.hints_wrapper(lambda a, b: a + b, (x,), {"b": x}, hints={})


def returns_its_input(x):
    @torch.compiler.nested_compile_region
    def region(a):
        return a

    return region(x) + 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (hints_in_a_list, "the hints are a list"),
        (with_keywords, "the function is given keywords"),
        (returns_its_input, "must not share memory"),
    ],
)
def test_misuse_is_an_error_with_its_reason(function, reason):
    """Such an operator has no meaning outside a graph, so a misuse raises an error with its reason."""
    with pytest.raises(errors.UncapturedHigherOrderOpError, match=reason):
        nbcompile.compile(function, backend="eager")(X)


def test_out_dtype_is_one_node():
    """The arguments of the node are the operator itself, the dtype, and the operands."""

    def f(x, y):
        return OPERATORS.out_dtype(torch.ops.aten.mul.Tensor, torch.int32, x, y)

    x = torch.tensor([100, 3], dtype=torch.int8)
    module = captured(f, x, x)
    assert node_of(module, OPERATORS.out_dtype).args[:2] == (torch.ops.aten.mul.Tensor, torch.int32)
    compiled = nbcompile.compile(f, backend="eager")
    assert compiled(x, x).tolist() == [10000, 9]


def test_calls_that_give_equal_graphs_share_one():
    """Calls with equal graphs share one body: other tensors are other arguments, another function is another body."""

    first = torch.compiler.nested_compile_region(lambda a, b: a.sin() + b)
    second = torch.compiler.nested_compile_region(lambda a, b: a.cos() + b)

    def f(x, y):
        return second(first(second(first(x, y), y), x), y)

    module = captured(f, X, Y)
    names = [node.args[1] for node in module.graph.find_nodes(op="call_function", target=nested_regions.INVOKE)]
    assert names == ["subgraph_0", "subgraph_1", "subgraph_0", "subgraph_1"]


def test_a_region_may_write_to_its_inputs():
    """The mutation is visible in the caller of the compiled function, as in eager mode."""

    @torch.compiler.nested_compile_region
    def region(a):
        a.mul_(2)
        return a + 1

    def f(x):
        y = x.clone()
        return region(y), y

    actual = nbcompile.compile(f, backend="eager", fullgraph=True)(X)
    torch.testing.assert_close(actual, (X * 2 + 1, X * 2))
