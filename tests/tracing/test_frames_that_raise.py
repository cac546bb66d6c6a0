"""Frames that an exception leaves: the code before it is compiled where torch compiles it."""

import traceback

import pytest
import torch
import torch._dynamo

import nbcompile
from tests.tracing import raising

PROGRAMS = (
    raising.missing, raising.asserts, raising.asserts_with_text, raising.asserts_in_finally, raising.asserts_in_callee, raising.raises,
    raising.raises_by_key,
)  # fmt: skip


def graphs_and_error(compile_, function):
    """The operators of each graph, and the errors with their lines, for two calls."""
    graphs, errors = [], []

    def counting(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op.startswith("call")])
        return graph.forward

    compiled = compile_(function, backend=counting) if compile_ else function
    for _ in range(2):
        with pytest.raises(Exception) as raised:
            compiled(torch.ones(3))
        *_, last = traceback.extract_tb(raised.value.__traceback__)
        errors.append((type(raised.value), str(raised.value), last.lineno))
    return graphs, errors


@pytest.mark.parametrize("function", PROGRAMS)
def test_graphs(function):
    """The graphs are torch's, and the errors are eager mode's."""
    torch._dynamo.reset()
    graphs, errors = graphs_and_error(nbcompile.compile, function)
    assert graphs == graphs_and_error(torch.compile, function)[0]
    assert errors == graphs_and_error(None, function)[1]


def test_missing_attribute_in_a_callee():
    """The caller's graph ends before the call, and the callee is a separate frame."""

    def under(z):
        w = z * 2
        w = w * 3
        return w.nothing

    def over(x):
        y = x.sin()
        return under(y + 1)

    graphs, errors = graphs_and_error(nbcompile.compile, over)
    assert [len(each) for each in graphs] == [2, 2]
    assert errors == graphs_and_error(None, over)[1]


def test_effects_happen_once():
    """A side effect before the missing attribute happens once in each call, as in eager mode."""
    graphs, _ = graphs_and_error(nbcompile.compile, raising.effect_before)
    assert graphs
    assert raising.NOTED == [0, 1]
    raising.NOTED.clear()


def test_what_is_caught_is_traced():
    """A missing attribute of a tensor or a failed assertion breaks no graph if the frame catches the error."""

    explained = nbcompile.explain(raising.caught, backend="eager")(torch.ones(3))
    assert explained.graph_count == 1
    torch.testing.assert_close(explained.result, raising.caught(torch.ones(3)))
