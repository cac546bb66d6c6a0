"""Functions and methods from outside."""

from __future__ import annotations

import functools
import json

import pytest
import torch

import nbcompile
from nbcompile.tracing.variables import caches, functions, known_callables
from nbcompile.tracing.variables.contexts import DecoratedVariable
from tests.tracing.frame.wrapped import wrapped


def plain(x):
    return x


@functools.lru_cache
def cached(x):
    return x


KINDS = [
    (plain, functions.FunctionVariable), (cached, caches.CachedFunctionVariable), (len, known_callables.BuiltinVariable),
    (torch.sin, known_callables.OperatorVariable), (plain.__call__, known_callables.CallOfVariable),
    (str.join, known_callables.UnboundMethodVariable), (nbcompile.disable(plain), known_callables.SkippedVariable),
    (json.loads, functions.FunctionVariable), (breakpoint, known_callables.SkippedVariable),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", "") or str(value))
def test_the_tracker_of_a_callable(value, kind):
    """A callable is in a table, is an operator, or is a Python function; any other call breaks the graph."""
    tracker, guards = wrapped(value)
    assert isinstance(tracker, kind)
    assert guards, "nothing says that the next call has the same function"


def test_a_skipped_function_says_why():
    """The reason names the module and the function."""
    tracker, _ = wrapped(breakpoint)
    assert "qualname: breakpoint" in tracker.reason.context


def test_a_compiled_function_is_the_function():
    """``compile(f)`` traces the body of ``f``; with ``fullgraph``, a break in it is an error."""
    compiled, whole = nbcompile.compile(plain), nbcompile.compile(plain, fullgraph=True)
    assert isinstance(wrapped(compiled)[0], functions.FunctionVariable)
    assert isinstance(wrapped(whole)[0], DecoratedVariable)


def test_methods_have_their_owner():
    """A bound method and a partial have their Python type."""
    owner = [1]
    assert wrapped(owner.append)[0].python_type() is type(owner.append)
    assert wrapped(functools.partial(plain, 1))[0].python_type() is functools.partial
