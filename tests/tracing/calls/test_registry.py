"""The tables from a callable to its handler or polyfill."""

from __future__ import annotations

import collections

import pytest
import torch

import nbcompile
from nbcompile.tracing import breaks, tracer
from nbcompile.tracing.calls import registry


def test_builtin_methods_of_classes_are_found_though_each_look_up_makes_a_new_object():
    """``dict.fromkeys is dict.fromkeys`` is False, so the key is the class and the name."""
    assert dict.fromkeys is not dict.fromkeys
    assert registry._key(dict.fromkeys) == registry._key(dict.fromkeys)
    assert registry._key(dict.fromkeys) != registry._key(collections.OrderedDict.fromkeys)


def test_a_callable_has_one_handler_and_one_polyfill():
    """A second registration raises an error, so the order of imports cannot replace the first."""
    assert tracer.__name__  # importing it fills the tables
    with pytest.raises(AssertionError, match="two handlers"):
        registry.handles(len)(lambda tracer, arguments, keywords: None)
    value, function = next(iter(registry._POLYFILLS.values()))
    with pytest.raises(AssertionError, match="two polyfills"):
        registry.add_polyfill(value, function)


def test_what_no_table_knows_has_no_meaning():
    """The registry has no handler and no polyfill for a new lambda, but it has a handler for ``len``."""
    assert registry.handler(lambda: 0) is None and registry.polyfill(lambda: 0) is None
    assert registry.handler(len) is not None


@pytest.mark.parametrize(("recursive", "kind"), [(True, breaks.DISABLED_FUNCTION), (False, breaks.DISABLED_INLINE)])
def test_a_disabled_function_breaks_with_its_reason(recursive, kind):
    """Functions that torch disabled are found, and those that nbcompile disabled."""

    def f(x):
        return x

    for disable in (nbcompile.disable, torch.compiler.disable):
        found = registry.disabled(disable(f, recursive=recursive, reason="it logs"))
        assert found.kind is kind and "it logs" in found.explanation()
    assert registry.disabled(f) is None


def test_a_wrapper_has_the_options_of_its_compilation():
    """A wrapper with ``fullgraph=True`` is found by its options."""
    assert registry.requires_one_graph(nbcompile.compile(lambda x: x, fullgraph=True))
    assert not registry.requires_one_graph(nbcompile.compile(lambda x: x))
