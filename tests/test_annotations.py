"""Marks of functions, and regions: their effect, and rejected arguments."""

from __future__ import annotations

import operator

import pytest
import torch

from nbcompile import annotations, config, errors


def plain(x):
    return x


@pytest.mark.parametrize(
    "mark",
    [
        annotations.allow_in_graph,
        annotations.forbid_in_graph,
        annotations.assume_constant_result,
        annotations.disallow_in_graph,
    ],
    ids=lambda mark: mark.__name__,
)
def test_a_mark_needs_a_callable(mark):
    """The error names the mark and the given type."""
    with pytest.raises(errors.NotCallable, match=f"{mark.__name__} expects a callable, not int"):
        mark(3)


def test_a_function_has_the_last_mark():
    """The last mark of a function counts; a list of functions is marked one by one."""

    def first(x):
        return x

    assert annotations.mark_of(first) == ""
    assert annotations.allow_in_graph([first]) == [first]
    assert annotations.mark_of(first) == "allow_in_graph"
    assert annotations.is_marked(first)
    annotations.forbid_in_graph(first)
    assert annotations.mark_of(first) == "forbid_in_graph"


def test_only_an_operator_can_be_disallowed():
    """A function that is no operator is in no graph, so that it cannot be disallowed."""
    with pytest.raises(RuntimeError, match="already allowed callable"):
        annotations.disallow_in_graph(plain)


def test_a_function_is_traced_strictly_or_is_a_leaf():
    """A function cannot have both marks; the original function is not marked."""
    leaf = annotations.leaf_function(plain)
    with pytest.raises(ValueError, match="@leaf_function and @nonstrict_trace"):
        annotations.nonstrict_trace(leaf)
    with pytest.raises(ValueError, match="@leaf_function and @nonstrict_trace"):
        annotations.leaf_function(annotations.nonstrict_trace(plain))
    assert annotations.mark_of(plain) == ""


def test_a_leaf_names_its_parameters():
    """A mutated argument must be a parameter, and a call needs a fake implementation."""
    with pytest.raises(ValueError, match="'y', which is not a parameter of 'plain'. Available parameters: x"):
        annotations.leaf_function(plain, mutates_args=["y[0]"])
    with pytest.raises(ValueError, match="requires a fake implementation"):
        annotations.leaf_function(plain)(torch.ones(1))


def test_a_substitute_has_the_signature_of_the_original():
    """Original and substitute must be functions with the same parameters."""
    with pytest.raises(TypeError, match="expects a function but got"):
        annotations.substitute_in_graph(3)
    with pytest.raises(TypeError, match="expects a function but got"):
        annotations.substitute_in_graph(operator.indexOf)(3)
    with pytest.raises(TypeError, match="Signature mismatch"):
        annotations.substitute_in_graph(operator.indexOf)(lambda a: a)


def test_a_region_is_left_as_it_was_found():
    """A region may be entered twice, or be a decorator; the innermost region decides."""
    before = annotations.errors_on_break()
    region = annotations.error_on_graph_break(True)
    with region:
        with annotations.error_on_graph_break(False):
            assert annotations.errors_on_break() is False
        with region:
            assert annotations.errors_on_break() is True
        assert annotations.errors_on_break() is True
    assert region(annotations.errors_on_break)() is True
    assert annotations.errors_on_break() == before


def test_only_some_settings_change_within_a_trace():
    """Other settings are rejected, with the list of the allowed ones; a setting is restored."""
    with pytest.raises(ValueError, match="cannot change 'recompile_limit'; it can change: "):
        annotations.patch_dynamo_config(recompile_limit=3)
    before = config.capture_scalar_outputs
    with annotations.patch_dynamo_config("capture_scalar_outputs", not before):
        assert config.capture_scalar_outputs is not before
    assert config.capture_scalar_outputs is before
