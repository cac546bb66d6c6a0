"""Elementwise operators: the type that they are computed in."""

import itertools
import warnings

import pytest
import sympy
import torch

import nbcompile
from nbcompile.errors import GeneratedCodeWarning
from nbcompile.ir.expr import Constant
from nbcompile.lowering.elementwise import SUPPORTED, promoted
from nbcompile.lowering.value import Value

DTYPES = sorted(SUPPORTED, key=str)


def tensor(dtype, ndim):
    return torch.empty((2,) * ndim, dtype=dtype)


def value(dtype, ndim):
    return Value(dtype, torch.device("cpu"), (sympy.Integer(2),) * ndim, Constant(0, dtype))


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16])
def test_types_are_promoted_as_torch_promotes_them(default):
    """Two operands: tensors with and without dimensions, and numbers, of every type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        numbers = [True, 3, 2.5]
        kinds = [(dtype, ndim) for dtype in DTYPES for ndim in (0, 1)]
        for first, second in itertools.product(kinds, [*kinds, *numbers]):
            ours = [value(*each) if isinstance(each, tuple) else each for each in (first, second)]
            theirs = [tensor(*each) if isinstance(each, tuple) else each for each in (first, second)]
            assert promoted(*ours) == torch.result_type(*theirs), (first, second)
    finally:
        torch.set_default_dtype(before)


def test_a_function_compiled_before_is_compiled_in_inference_mode():
    """Nothing that one compilation remembers of types is a tensor, which a mode could refuse later."""
    nbcompile.reset()
    compiled = nbcompile.compile(lambda x: x * 2 + 1)
    x = torch.ones(3)
    assert torch.equal(compiled(x), x * 2 + 1)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", GeneratedCodeWarning)
        assert torch.equal(compiled(x), x * 2 + 1)


@pytest.mark.parametrize(
    "function", [lambda x: x - True, lambda x: torch.sub(x, False), lambda x: torch.rsub(x, True), lambda x: True - x]
)
def test_true_is_not_subtracted(function):
    """What torch refuses is refused, with its own words."""
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Subtraction"):
        function(x)
    with pytest.raises(RuntimeError, match="Subtraction"):
        nbcompile.compile(function)(x)
