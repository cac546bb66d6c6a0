"""Passes over the joint graph: common subexpressions, and nodes that only look equal."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from nbcompile.aot import passes
from tests.support.processes import python

aten = torch.ops.aten


def graph_of(build, *inputs):
    """A graph module from a function over (graph, placeholders), with an example value on every node."""
    graph = torch.fx.Graph()
    names = [graph.placeholder(f"x{at}") for at in range(len(inputs))]
    graph.output(tuple(build(lambda target, *args, **kwargs: graph.call_function(target, args, kwargs), *names)))
    module = torch.fx.GraphModule({}, graph)
    values = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = inputs[int(node.name[1:])]
        elif node.op == "call_function":
            arguments = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*arguments[0], **arguments[1])
        else:
            continue
        node.meta["val"] = values[node]
    return module


def calls(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def twice(call, x):
    return [call(aten.mul.Tensor, call(aten.exp.default, x), call(aten.exp.default, x))]


def in_a_chain(call, x):
    """Two pairs of nodes: the second pair is equal only after the first pair is merged."""
    return [
        call(aten.mul.Tensor, call(aten.sin.default, call(aten.exp.default, x)), call(aten.sin.default, call(aten.exp.default, x)))
    ]  # fmt: skip


def with_lists(call, x):
    return [call(aten.mul.Tensor, call(aten.sum.dim_IntList, x, [0], True), call(aten.sum.dim_IntList, x, [0], True))]


@pytest.mark.parametrize(("build", "left"), [(twice, 2), (in_a_chain, 3), (with_lists, 2)])
def test_equal_nodes_are_one(build, left):
    """Nodes with the same operator and arguments are merged, also if the arguments are equal only after a merge."""
    x = torch.randn(3, 4)
    module = graph_of(build, x)
    expected = module(x)
    passes.eliminate_common_subexpressions(module)
    assert len(calls(module)) == left
    torch.testing.assert_close(module(x), expected, rtol=0, atol=0)


def numbers_of_two_types(call, x):
    return [call(aten.div.Tensor, call(aten.mul.Tensor, x, 1), call(aten.mul.Tensor, x, 1.0))]


def zeros_of_two_signs(call, x):
    return [call(aten.add.Tensor, call(aten.div.Tensor, x, 0.0), call(aten.div.Tensor, x, -0.0))]


def drawn_numbers(call, x):
    return [call(aten.sub.Tensor, call(aten.rand_like.default, x), call(aten.rand_like.default, x))]


def empty_memory(call, x):
    return [call(aten.sub.Tensor, call(aten.empty_like.default, x), call(aten.empty_like.default, x))]


def two_results(call, x):
    return [call(aten.exp.default, x), call(aten.exp.default, x)]


def around_a_write(call, x):
    before = call(aten.exp.default, x)
    call(aten.copy_.default, x, before)
    return [call(aten.sub.Tensor, before, call(aten.exp.default, x))]


@pytest.mark.parametrize(
    "build",
    [numbers_of_two_types, zeros_of_two_signs, drawn_numbers, empty_memory, two_results, around_a_write],
    ids=lambda each: each.__name__,
)
def test_what_only_looks_equal_stays(build):
    """Nodes are not merged if types or signs differ, for random or empty memory, results, or with writes between."""
    module = graph_of(build, torch.randn(3))
    before = calls(module)
    passes.eliminate_common_subexpressions(module)
    assert calls(module) == before


TRAINING = """
import sys, torch, nbcompile
step = nbcompile.compile(lambda x, w: torch.tanh(torch.relu(x) @ w).sum())
w = torch.randn(4, 4, requires_grad=True)
step(torch.randn(4, 4), w).backward()
print(sorted(name for name in sys.modules if name.startswith("torch._inductor.")))
"""


def test_training_does_not_import_inductor():
    """The search for equal nodes does not import Inductor's lowerings and templates (1.1 s)."""
    assert "torch._inductor.lowering" not in python(TRAINING)
