"""Scalar graphs as Triton expressions."""

from __future__ import annotations

import operator
from types import SimpleNamespace

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.codegen.triton_graph import expressions, results
from nbcompile.codegen.triton_values import NoTriton

PLACE = ("b", "h", "i", "j")


def traced(function, *buffers):
    """A graph of a score, an index, and buffers."""
    numbers = [torch.ones(()), *(torch.ones((), dtype=torch.int32) for _ in PLACE)]
    return make_fx(function)(*numbers, *buffers)


def test_lines_and_a_result():
    """Each operator is one line, and the result is a name."""
    graph = traced(lambda s, b, h, i, j: s * 2 + (i - j))
    text, lines = expressions(graph, ("scores", *PLACE), (), "valid", "[16, 16]", "s")
    assert text == lines[-1].split()[0]
    assert any("(i).to(tl.int32) - (j).to(tl.int32)" in line for line in lines)


def test_a_buffer_is_read_where_it_may_be():
    """A buffer is loaded under a mask, at an offset by its strides; a negative index counts from the end."""
    bias = torch.ones(4, 8)
    graph = traced(lambda s, b, h, i, j, bias: s + torch.ops.aten.index(bias, [h, j]), bias)
    _, lines = expressions(graph, ("scores", *PLACE), [("bias", bias)], "valid", "[16, 16]", "s")
    (load,) = (line for line in lines if "tl.load" in line)
    assert "tl.load(bias + " in load
    assert ", valid, 0)" in load
    assert "+ 8, " in load


def test_what_no_result_needs_is_left_out():
    """An operator without a text is no error if no result needs it."""
    graph = fx.Graph()
    score = graph.placeholder("score")
    score.meta["val"] = torch.ones(())
    unused = graph.call_function(torch.ops.aten.erf.default, (score,))
    unused.meta["val"] = torch.ones(())
    graph.output((score, None))
    assert results(fx.GraphModule({}, graph), ("scores",), (), "valid", "[16, 16]", "s") == (["scores", None], [])


@pytest.mark.parametrize("function", [lambda s, b, h, i, j: torch.erf(s), lambda s, b, h, i, j: s**2.5])
def test_what_has_no_text_is_an_error(function):
    """The error has the name of the operator without a text."""
    with pytest.raises(NoTriton, match="erf|pow"):
        expressions(traced(function), ("scores", *PLACE), (), "valid", "[16, 16]", "s")


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.reciprocal, torch.square])
def test_derivatives_have_a_text(function):
    """The derivatives of functions in score functions have a text."""

    def derivative(s, b, h, i, j):
        given = s.detach().requires_grad_()
        return torch.autograd.grad(function(given), given)[0]

    text, _ = expressions(traced(derivative), ("scores", *PLACE), (), "valid", "[16, 16]", "s")
    assert operator.contains(text, "s")


@pytest.mark.parametrize("number", [2.5, -2.5, 0.0, -0.0, float("inf"), float("nan")])
def test_the_sign_of_a_number_is_eager_modes(number):
    """The sign of NaN is 0, as in ``torch.sgn``, which is the derivative of ``abs``."""
    (line,) = (
        line for line in expressions(traced(lambda s, b, h, i, j: torch.sgn(s)), ("x", *PLACE), (), "m", "[1]", "s")[1]
    )
    where = SimpleNamespace(where=lambda condition, yes, no: yes if condition else no, float32=float)
    text = line.partition(" = ")[2].replace(".to(tl.float32)", "")
    assert eval(text, {"tl": where, "x": number}) == torch.sgn(torch.tensor(number))
