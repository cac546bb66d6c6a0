"""Calls of operators, from the samples of torch's own database."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import torch

from nbcompile.tools.fuzz import database


def test_a_call_is_text_with_holes():
    """A call's text, filled with tensors of its shapes and dtypes, runs in eager mode."""
    made = 0
    for seed in range(40):
        call = database.drawn(random.Random(seed))
        if call is None:
            continue
        names = [f"t{number}" for number in range(len(call.tensors))]
        scope = {name: torch.ones(size, dtype=dtype) for name, (size, dtype) in zip(names, call.tensors, strict=True)}
        assert call.text.count("{}") == len(names)
        try:
            eval(call.text.format(*names), {"torch": torch}, scope)
        except (RuntimeError, IndexError, ValueError):
            continue  # ones are no sample of it: factors that are singular, for example
        made += 1
    assert made >= 10


def test_braces_of_a_text_are_no_holes():
    """Braces in an argument's text survive ``str.format``."""
    call = database._call("f", SimpleNamespace(input=torch.ones(2), args=("{a}", [1, math.inf]), kwargs={"to": None}))
    assert call is not None
    assert call.text.format("x") == "f(x, '{a}', [1, float('inf')], to=None)"
    assert call.tensors == (((2,), torch.float32),)


def test_what_is_random_is_not_drawn():
    """Calls with random, or with several right results, are not drawn."""
    names = database.names()
    assert "add" in names
    assert not {"bernoulli", "nn.functional.dropout", "svd", "empty_like", "nonzero"} & set(names)


def test_the_name_that_a_program_writes():
    """The text calls a function of torch or a method of tensors, or there is none."""
    assert database.written("nn.functional.gelu") == "torch.nn.functional.gelu"
    assert database.written("expand") == "torch.Tensor.expand"
    assert database.written("no.such.operator") is None
