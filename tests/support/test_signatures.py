"""Signatures of functions in C are read without a change of the modules that contain them."""

from __future__ import annotations

import builtins
import inspect

import pytest
import torch

import nbcompile
from nbcompile.support.signatures import signature_of


@pytest.fixture(autouse=True)
def plain_builtins(monkeypatch):
    """A namespace of ``builtins`` that does not contain itself."""
    monkeypatch.delitem(vars(builtins), "__builtins__", raising=False)


def test_the_namespace_of_the_module_stays_as_it_is():
    """A default that is an expression, such as ``sys.maxsize``, leaves nothing in the namespace of ``builtins``."""
    before = set(vars(builtins))
    assert signature_of(list.index) == inspect.signature(list.index)
    vars(builtins).pop("__builtins__", None)
    signature_of(list.index)
    assert set(vars(builtins)) == before


def test_tracing_leaves_builtins_as_they_are():
    """A method in C whose arguments are checked while tracing adds no name to ``builtins``."""
    before = set(vars(builtins))
    assert nbcompile.compile(lambda x: x + [1, 2].index(2), backend="eager")(torch.zeros(1)).item() == 1
    assert set(vars(builtins)) == before


def test_functions_of_python_and_without_a_signature():
    """A function in Python has its own signature; without one there is a ValueError, as ``inspect`` raises it."""
    assert str(signature_of(lambda a, *, b=2: a)) == "(a, *, b=2)"
    with pytest.raises(ValueError, match="no signature"):
        signature_of(min)
