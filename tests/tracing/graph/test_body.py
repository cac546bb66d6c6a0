"""Graphs inside another graph."""

import pytest
import torch

from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing import breaks
from nbcompile.tracing.graph.body import Body


class Known:
    """A value that the traced code created, or one from outside."""

    def __init__(self, created_at, made_here):
        self.created_at, self.made_here = created_at, made_here

    def is_created_here(self):
        return self.made_here


def frames_body():
    return Body(None, {}, may_change=True)


def names(body):
    return [node.name for node in body.graph.nodes]


def test_inputs_come_before_operators():
    """Inputs come first in the graph, in the order in which they were added."""
    body = frames_body()
    first = body.placeholder("first", torch.ones(2))
    body.graph.call_function(torch.sin, (first,))
    body.placeholder("second", torch.ones(2))
    assert names(body) == ["first", "second", "sin"]


def test_a_value_from_outside_is_an_input_of_each_body_on_the_way():
    """Each body has the value as an input once: a second use returns the same input."""
    outer = frames_body()
    node = outer.placeholder("w", torch.ones(2))
    middle = Body(outer, {}, may_change=False)
    inner = Body(middle, {}, may_change=False)
    lifted = inner.lift(node)
    assert lifted.graph is inner.graph
    assert (inner.lift(node), inner.lift(lifted)) == (lifted, lifted)
    assert (names(middle), names(inner)) == (["w"], ["w"])
    assert lifted.meta[EXAMPLE] is node.meta[EXAMPLE]


def test_a_value_of_a_closed_body_leaks():
    """The value belongs to no surrounding graph, so the graph breaks, with the name of the value."""
    other = frames_body().placeholder("hidden", torch.ones(2))
    with pytest.raises(breaks.Unsupported, match="hidden"):
        Body(frames_body(), {}, may_change=False).lift(other)


def test_what_is_outside():
    """A value is outside if it existed before the body, or if the traced code did not create it."""
    before = Known(next(iter([frames_body().began])), made_here=True)
    body = frames_body()
    assert body.is_outside(before)
    assert body.is_outside(Known(body.began + 1, made_here=False))
    assert not body.is_outside(Known(body.began + 1, made_here=True))


def test_writes_to_inputs_are_seen():
    """A mutation is detected by the version of the example tensor."""
    body = frames_body()
    node = body.placeholder("x", torch.ones(2))
    assert not body.changes_inputs()
    node.meta[EXAMPLE][0].add_(1)
    assert body.changes_inputs()


def test_inputs_and_results_that_share_memory():
    """A view of an input shares memory with it; a new tensor does not."""
    for function, shares in ((lambda x: x[1:], True), (lambda x: x + 1, False)):
        body = frames_body()
        node = body.placeholder("x", torch.ones(3))
        result = body.graph.call_function(function, (node,))
        result.meta[EXAMPLE] = function(node.meta[EXAMPLE])
        body.graph.output((result,))
        assert body.shares_memory() == shares
