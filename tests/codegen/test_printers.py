"""Sizes and symbolic numbers as Python text."""

import math

import pytest
import sympy
import torch
from torch.utils._sympy import functions

import nbcompile
from nbcompile.codegen.printers import python_index

NUMBER = sympy.Symbol("n", real=True)
ROUNDINGS = {
    functions.FloorToInt: math.floor,
    functions.CeilToInt: math.ceil,
    functions.TruncToInt: math.trunc,
    functions.RoundToInt: round,
}


@pytest.mark.parametrize("kind", ROUNDINGS, ids=lambda kind: kind.__name__)
def test_a_rounded_number_as_python(kind):
    """The text computes what Python's own function does."""
    for negated in (False, True):
        text = python_index(kind(-NUMBER if negated else NUMBER) + 1)
        for value in (-2.5, -0.5, 0.0, 0.5, 1.5, 2.0, 2.75, 1e15 + 0.5):
            expected = ROUNDINGS[kind](-value if negated else value) + 1
            assert eval(text, {"n": value}) == expected, (text, value)  # noqa: S307  # the text is generated


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: (x + 1, math.floor(n), math.ceil(-n), math.trunc(n)),
        lambda x, n: (x + 1, int(n) ^ 5, abs(int(n) - 9), int(n) & 6, int(n) | 3),
        lambda x, n: (x + 1, abs(x.shape[0] ^ 7)),
    ],
)
def test_numbers_that_a_graph_returns(function):
    """A graph that returns such numbers is generated code, for any of them."""
    compiled = nbcompile.compile(function, dynamic=True)
    for size, number in ((3, 2.5), (5, -3.5), (6, 4.0)):
        expected, found = function(torch.ones(size), number), compiled(torch.ones(size), number)
        assert found[1:] == expected[1:]
        assert torch.equal(found[0], expected[0])
