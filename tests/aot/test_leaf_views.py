"""Tests for nbcompile.aot.leaf_views: a view created without gradients is a leaf, and passes no gradient on."""

from __future__ import annotations

import pytest
import torch

import nbcompile


def _of_a_parameter(_x, w):
    with torch.no_grad():
        return (w[1:],)


@torch.no_grad()
def _without_gradients(x, w):
    return w.view(-1), w[1:], w.t(), x * w


def _beside_its_base(x, w):
    y = x * w
    with torch.no_grad():
        rows = y[1:]
    return rows, y


def _of_what_is_not_returned(x, w):
    y = x * w
    with torch.no_grad():
        flat = y.view(-1)
    return flat, w * 2


def _parts(_x, w):
    with torch.no_grad():
        first, second = w.split(2)
    return first, second, w * 3


def _computed_with(x, w):
    with torch.no_grad():
        flat = w.view(-1)
    return flat, (flat * 3 * x).sum() + (w * 0).sum()


def _viewed_again(_x, w):
    with torch.no_grad():
        first, second = w.split(2)
    return first, second, second.view(1, 2)


def _of_what_needs_none(x, w):
    with torch.no_grad():
        flat = x.view(-1)
    return flat, w * 2


PROGRAMS = (
    _of_a_parameter, _without_gradients, _beside_its_base, _of_what_is_not_returned, _parts, _computed_with,
    _viewed_again, _of_what_needs_none,
)  # fmt: skip


def facts(function):
    """The results' metadata that a caller sees, and the gradients after a backward pass."""
    x, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
    results = function(x, w)
    seen = [(each.tolist(), each.requires_grad, each.is_leaf, each._is_view()) for each in results]
    memory = [each.data_ptr() - w.data_ptr() for each in results if each._base is w]
    sum(each.sum() for each in results if each.requires_grad).backward()
    return seen, memory, [w.grad, *(each.grad for each in results if each.is_leaf)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_a_view_made_without_gradients_is_a_leaf(function, backend):
    """Results, leaves, memory and gradients equal eager's."""
    expected, found = facts(function), facts(nbcompile.compile(function, backend=backend))
    assert found[:2] == expected[:2]
    torch.testing.assert_close(found[2], expected[2])


@pytest.mark.compiles
def test_only_a_leaf_that_is_computed_with_runs_as_captured():
    """A graph that computes with such a leaf runs as captured, and the record has the reason; others are compiled."""
    for function, reason in ((_computed_with, True), (_beside_its_base, False)):
        compiled = nbcompile.explain(function)(torch.arange(4.0), torch.ones(4, requires_grad=True)).record
        notes = " ".join(map(str, compiled.frames[0].compiled_graph.notes))
        assert ("created without gradients" in notes) is reason


def test_writing_to_it_is_an_error_of_eager_mode():
    """A view created without gradients cannot be written to in grad mode, compiled or not."""
    for function in (_of_a_parameter, nbcompile.compile(_of_a_parameter)):
        (rows,) = function(torch.arange(4.0), torch.ones(4, requires_grad=True))
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            rows.add_(1)


def _base_written(p):
    with torch.no_grad():
        flat = p.view(-1)
        p.mul_(2)
    return flat


def _itself_written(p):
    with torch.no_grad():
        flat = p.view(-1)
        flat.mul_(2)
        return flat * 2, flat


def _sibling_written(p):
    with torch.no_grad():
        first, second = p.chunk(2)
        first.mul_(2)
    return second, first


@pytest.mark.parametrize("function", [_base_written, _itself_written, _sibling_written])
def test_a_write_to_its_memory_runs_as_captured(function):
    """A mutation of the view's base runs as captured: values and aliasing equal eager's."""
    facts_of = []
    for called in (function, nbcompile.compile(function)):
        p = torch.nn.Parameter(torch.ones(4))
        results = called(p)
        result = results[-1] if isinstance(results, tuple) else results
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            _ = result.is_leaf
        with torch.no_grad():
            facts_of.append((p.tolist(), result.data_ptr() - p.data_ptr()))
    assert facts_of[0] == facts_of[1]
    note = nbcompile.explain(function)(torch.nn.Parameter(torch.ones(4))).record.frames[0].compiled_graph.notes
    assert "writes to the same memory" in " ".join(map(str, note))


def _returned_from_inference_mode(x):
    with torch.inference_mode():
        return x.t(), x[0]


def _used_in_inference_mode(x):
    with torch.inference_mode():
        y = x[0] * 2
    return y, x * 3


@pytest.mark.parametrize("function", [_returned_from_inference_mode, _used_in_inference_mode])
def test_a_view_in_inference_mode_runs_as_captured(function):
    """A graph that AOTAutograd cannot trace in inference mode has eager's results, and later compiles work."""
    for learns in (False, True):
        x, facts_of = torch.eye(2).requires_grad_(learns), []
        for called in (function, nbcompile.compile(function)):
            results = called(x)
            facts_of.append(
                [(each.tolist(), each.is_inference(), each.requires_grad, each._is_view()) for each in results]
            )
        if learns or function is _returned_from_inference_mode:
            assert facts_of[0] == facts_of[1]
            compiled = nbcompile.explain(function)(x).record.frames[0].compiled_graph
            assert "in inference mode" in " ".join(map(str, compiled.notes))
        assert torch.ones(2).sum() == 2


def test_aot_autograd_gets_no_view_in_inference_mode():
    """A graph in inference mode that nothing else can trace runs as captured, and later compiles work."""

    def function(x):
        with torch.inference_mode():
            y = x[0] * 2
        x.add_(1)  # on the reference path only AOTAutograd compiles a graph that mutates its input
        return y, x * 3

    with nbcompile.config.patch(reference=True):
        found = nbcompile.explain(function)(torch.eye(2))
    assert torch.equal(found.result[1], 3 * (torch.eye(2) + 1))
    assert "which AOTAutograd cannot trace" in " ".join(map(str, found.record.frames[0].compiled_graph.notes))
    assert torch.ones(2).sum() == 2
