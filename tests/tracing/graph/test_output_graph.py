"""The graph of one frame while it grows: nodes on fake tensors, unique guards, and nodes that are erased."""

from __future__ import annotations

import operator

import pytest
import torch

import nbcompile
from nbcompile import errors
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.source import LocalSource
from nbcompile.record.model import StackLine
from nbcompile.tracing import breaks
from nbcompile.tracing.exceptions import MustBreakEarlier
from nbcompile.tracing.graph.body import Body
from nbcompile.tracing.graph.output_graph import stack_text
from tests.support.answers import described
from tests.support.graphs import Graphs
from tests.tracing.graph.growing import call, growing, targets

X = LocalSource("x")


def test_an_operator_runs_on_fakes_at_once():
    """The node has the result's shape as a fake tensor; no data is computed."""
    output, x = growing(torch.ones(2, 3))
    node = call(output, torch.matmul, x, output.apply("call_method", "t", (x,), {}))
    assert node.meta[EXAMPLE].shape == (2, 2) and type(node.meta[EXAMPLE]).__name__ == "FakeTensor"
    assert output.operators() == 2 and output.has_operators()


def test_an_operator_that_fails_leaves_no_node():
    """The trace can continue after the error."""
    output, x, y = growing(torch.ones(2, 3), torch.ones(4))
    with pytest.raises(errors.TorchRuntimeError):
        call(output, torch.add, x, y)
    assert targets(output) == [] and not output.has_operators()


def test_a_minus_is_written_as_python_reads_it():
    """The graph is Python text, in which ``-2 ** x`` differs from ``pow(-2, x)``."""
    output, x = growing(torch.ones(3))
    assert call(output, operator.pow, -2, x).target is pow
    assert call(output, operator.pow, 2, x).target is operator.pow


def test_a_guard_is_there_once_with_the_line_that_needed_it_first():
    """Equal kinds, sources and expected values give one guard; another expected value gives another guard."""
    output, _ = growing(torch.ones(3))
    lines = [StackLine("a.py", 1, "f", "first"), StackLine("a.py", 2, "f", "second")]
    for line in lines:
        output.stack = lambda line=line: (line,)
        output.guard(X, GuardKind.EQUALS_MATCH, 1)
    output.guard(X, GuardKind.EQUALS_MATCH, 2)
    first, second = output.guards.values()
    assert first.stack == (lines[0],) and (first.expected, second.expected) == (1, 2)


class Looked:
    """A class with members."""

    def method(self):
        """A method."""


def test_members_that_were_looked_up_are_guarded_with_the_class():
    """A guard on the type of an object checks the members; one guard is enough for a class."""
    output, _ = growing(torch.ones(3))
    output.guard(X, GuardKind.TYPE_MATCH, Looked)
    output.guard(LocalSource("y"), GuardKind.TYPE_MATCH, Looked)
    for name in ("method", "missing", "method"):
        output.note_member(X, Looked, name)
    output.note_member(LocalSource("y"), Looked, "later")
    of_x, of_y = output.guards_on_members()
    assert [name for name, _ in of_x.members] == ["method", "missing", "later"] and of_y.members == ()
    assert of_x.members[0][1] != of_x.members[1][1]


def test_a_graph_without_operators_is_none():
    """A graph with only side effects or constants is not compiled."""
    output, x = growing(torch.ones(3))
    assert output.finish((x,), "__compiled_fn_1") is None


def test_a_finished_graph_has_its_outputs():
    """The finished graph is a module that computes its outputs."""
    output, x = growing(torch.ones(3))
    doubled = call(output, operator.mul, x, 2)
    output.erase(call(output, torch.sin, x))
    graph = output.graph
    assert targets(output) == [operator.mul]
    graph.output((doubled,))
    (result,) = torch.fx.GraphModule({}, graph)(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 2.0))


def test_a_mode_is_entered_now_and_in_the_graph():
    """The mode is active while later operators are traced; a mode that is still active is exited at the end."""
    output, _ = growing(torch.ones(3))
    mode, entered = output.enter_inference_mode(True)
    assert torch.is_inference_mode_enabled() and list(output.modes) == [mode]
    output.exit_inference_mode(mode, entered)
    assert not torch.is_inference_mode_enabled() and not output.modes
    output.enter_inference_mode(True)
    output.leave_modes()
    assert not torch.is_inference_mode_enabled() and len(targets(output)) == 3


def test_a_body_may_change_nothing_outside_of_it():
    """A body may run any number of times, so it may not change a global, unless its creator allows changes."""
    output, _ = growing(torch.ones(3))
    output.may_change(None)
    with output.inside(output.new_body()):
        with pytest.raises(breaks.Unsupported, match="global"):
            output.may_change(None)
        with output.inside(output.new_body(may_change=True)), pytest.raises(breaks.Unsupported):
            output.may_change(None)
    with output.inside(output.new_body(may_change=True)):
        output.may_change(None)
    assert output.body is output.root


def test_values_of_outer_bodies_become_arguments():
    """A value of an outer body becomes an input of the inner body."""
    output, x = growing(torch.ones(3))
    body = output.new_body()
    with output.inside(body):
        inner = call(output, torch.sin, x)
    assert inner.graph is body.graph and inner.args[0].graph is body.graph and inner.args[0] is not x
    first, second = (output.install("body", Body(None, {}, may_change=True)) for _ in range(2))
    assert (first.target, second.target) == ("body_0", "body_1")


def test_an_output_of_a_leaf_of_the_graph_breaks_earlier():
    """An output that depends on a new leaf, whose gradient would be lost, breaks the graph earlier."""
    output, x = growing(torch.ones(3))
    leaf = call(output, torch.Tensor.requires_grad_, call(output, torch.sin, x))
    result = call(output, torch.cos, leaf)
    detached = output.apply("call_method", "detach", (result,), {})
    output.check_leaves((result,))
    output.new_leaves.append(leaf)
    output.check_leaves((x, detached))
    with pytest.raises(MustBreakEarlier):
        output.check_leaves((x, result))


def test_a_stack_is_written_as_python_writes_tracebacks():
    """Each frame is one line with its file and one line of source, as in fx."""
    lines = (StackLine("a.py", 3, "f", "g(x)"), StackLine("b.py", 7, "g", "x + 1"))
    assert stack_text(lines) == '  File "a.py", line 3, in f\n    g(x)\n  File "b.py", line 7, in g\n    x + 1\n'


class Holder:
    pass


def stores_without_gradients(x, holder):
    with torch.no_grad():
        holder.value = 3
    return 1


def stores_with_gradients(x, holder):
    with torch.enable_grad():
        holder.value = x
    return x


def breaks_between(x, holder):
    with torch.no_grad():
        holder.value = 3
        print(end="")
        holder.other = 4
    return 5


def computes_after_a_break(x, holder):
    with torch.no_grad():
        pass
    print(end="")
    return x + 1


@torch.enable_grad()
def decorated(holder):
    holder.value = 3


def calls_a_decorated_function(x, holder):
    decorated(holder)
    return 5


@pytest.mark.parametrize(("function", "count"), [
    (stores_without_gradients, 0), (stores_with_gradients, 0), (breaks_between, 0), (computes_after_a_break, 1),
    (calls_a_decorated_function, 0),
])  # fmt: skip
def test_modes_around_no_operator_are_no_graph(function, count):
    """What is left of a frame without operators is its side effects: a backend is not called with an empty graph."""
    graphs, holder, expected = Graphs(), Holder(), Holder()
    x = torch.ones(2)
    result = nbcompile.compile(function, backend=graphs)(x, holder)
    assert described(result) == described(function(x, expected))
    assert vars(holder).keys() == vars(expected).keys()
    assert len(graphs) == count
