"""Deferred values, which Python computes after the graph: one object, however often it is used."""

from __future__ import annotations

import math

import pytest
import torch

import nbcompile


@pytest.mark.usefixtures("nothing_compiled")
def test_a_deferred_value_is_one_object() -> None:
    """A number and a text that are returned twice are the same object, as in eager mode."""

    def f(x, n):
        number, text = math.factorial(n), f"{n} of {x.shape[0]}"
        return x + n, number, number, text, [text]

    compiled = nbcompile.compile(f, backend="eager")
    for n in (20, 21, 22):
        _, number, same, text, (again,) = compiled(torch.ones(2), n)
        assert number is same
        assert text is again
        assert (number, text) == (math.factorial(n), f"{n} of 2")
