"""Contexts that are active in the traced program: the exit of a context, and exceptions that it may suppress."""

from __future__ import annotations

import contextlib

import pytest
import torch

import nbcompile
from nbcompile.tracing.frame.active_contexts import may_suppress
from tests.support.graphs import Graphs


class Suppressing:
    """A user's context that suppresses every exception."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


class Context:
    """A tracker of a context that only has a class."""

    def __init__(self, cls):
        self.cls = cls

    def python_type(self):
        return self.cls


@pytest.mark.parametrize(("cls", "expected"), [
    (Suppressing, True), (contextlib.suppress, True), (contextlib.nullcontext, False), (torch.no_grad, False),
])  # fmt: skip
def test_a_context_of_the_user_may_suppress(cls, expected):
    """A user's context may suppress exceptions; those of torch and generator contexts do not."""
    assert may_suppress(Context(cls)) is expected


def test_a_context_that_was_left_is_forgotten():
    """A graph break after the block does not enter the context again."""

    def breaking(x):
        with Suppressing():
            x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    graphs = Graphs()
    assert nbcompile.compile(breaking, backend=graphs)(torch.ones(2)).tolist() == breaking(torch.ones(2)).tolist()
    assert len(graphs) == 2
