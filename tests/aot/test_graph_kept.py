"""Errors and class names of a compiled backward whose graph is retained, or differentiated again: they are torch's."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
import torch._functorch.aot_autograd
import torch._functorch.config

import nbcompile

DONATED = "This backward function was compiled with non-empty donated buffers which requires create_graph=False"


def two_results(x, y):
    a = x.sin() @ y
    return a.exp(), a.cos()


def inputs_alone(x, y):
    return x * y, x + y


def learning(*shape):
    return torch.randn(*shape, requires_grad=True)


def keeps_its_graph(function, compiled=nbcompile.compile):
    """Run two backward passes through one graph, the first with ``retain_graph=True``."""
    first, second = compiled(function)(learning(4, 4), learning(4, 4))
    first.sum().backward(retain_graph=True)
    second.sum().backward()


@pytest.fixture(autouse=True)
def unset_afterwards():
    """Torch's ``patch`` does not unset a setting whose value was the default; any setting asks for donation."""
    given = torch._functorch.config._config["donated_buffer"].user_override
    before = given.get()
    yield
    given.set(before)


def donating(switch):
    return torch._functorch.config.patch(donated_buffer=switch)


def test_donation_that_is_asked_for_is_rejected_to_a_kept_graph():
    """A retained graph raises torch's error if the program asked for donation."""
    with donating(True), pytest.raises(RuntimeError) as rejected:
        keeps_its_graph(two_results)
    assert DONATED in str(rejected.value)
    torchs = re.sub(r'"\s*f?"', "", inspect.getsource(torch._functorch._aot_autograd.runtime_wrappers))
    assert DONATED in torchs


def test_nothing_is_rejected_where_inputs_alone_are_saved():
    """Donation rejects nothing if only inputs are saved: they are not donated."""
    with donating(True):
        keeps_its_graph(inputs_alone)


def test_a_graph_that_is_not_kept_may_be_donated():
    """A graph that is not retained may be donated: only a second backward pass is an error."""
    with donating(True):
        first, second = nbcompile.compile(two_results)(learning(4, 4), learning(4, 4))
        (first.sum() + second.sum()).backward()


def test_without_being_asked_a_graph_is_kept_as_in_eager():
    """By default a graph may be retained, because our backward graphs do not write to saved tensors."""
    keeps_its_graph(two_results)
    nbcompile.reset()
    with donating(False):
        keeps_its_graph(two_results)


def test_a_stored_graph_rejects_as_well(tmp_path):
    """A graph from the cache raises the same error: the stored metadata contain the saved tensors."""
    run = nbcompile.compile(two_results)
    run(learning(4, 4), learning(4, 4))
    nbcompile.reset()
    with donating(True), pytest.raises(RuntimeError, match=DONATED):
        keeps_its_graph(two_results)


def test_a_symbolic_size_changes_nothing():
    """The error is the same with symbolic sizes, which are saved before the saved tensors."""
    with donating(True), pytest.raises(RuntimeError, match=DONATED):
        keeps_its_graph(two_results, lambda f: nbcompile.compile(f, dynamic=True))


def test_the_node_of_a_second_backward_has_torchs_name():
    """The ``grad_fn`` of a gradient with ``create_graph=True`` has torch's class name."""
    x = learning(4)
    (gradient,) = torch.autograd.grad(nbcompile.compile(lambda x: x.exp().sum())(x), x, create_graph=True)
    assert type(gradient.grad_fn).__name__ == "CompiledFunctionBackwardBackward"


def test_the_history_of_a_saved_view_is_kept():
    """A second derivative through an input that is a view raises an error; it is not silently zero."""
    run = nbcompile.compile(lambda x: (x.sin() * x).sum())
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.functional.hessian(run, torch.randn(4))
