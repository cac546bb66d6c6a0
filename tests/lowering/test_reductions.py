"""Reductions of whole tensors, rows and columns give eager's values, also as operands of later operators."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import nbcompile
from nbcompile.tools.fuzz.compare import same_bits
from tests.lowering.families import b, check_family, every_way, n, v, x
from tests.support import targets
from tests.support.lowered import programs

FAMILIES = {
    "sums and extremes": (
        lambda x, n, b: [
            x.sum(),
            x.sum(0),
            x.sum(1, keepdim=True),
            x.mean(),
            x.mean(1),
            n.sum(1),
            b.sum(0),
            x.amax(1),
            x.amin(),
            x.max(),
            x.min(),
            x.max(1),
            x.min(0),
            x.argmax(),
            x.argmin(1, keepdim=True),
            x.prod(),
            x.prod(1),
            (x > 0).any(),
            (x > 0).all(1),
            n.any(1),
            n.prod(0),
            b.amax(1),
        ],
        (x, n, b),
    ),
    "variances and norms": (
        lambda x: [
            x.var(),
            x.var(1),
            x.std(0, keepdim=True),
            *torch.var_mean(x, 1),
            x.var(1, correction=0),
            torch.logsumexp(x, 1),
            x.norm(),
            x.norm(dim=1),
            x.norm(p=1, dim=1),
            x.norm(p=float("inf")),
            x.norm(p=3, dim=0),
        ],
        (x,),
    ),
    "a number and what uses it": (lambda x: [x.sum() * 2 + x, x / x.sum(), (x - x.mean()) / x.std()], (x,)),
    "values that several reductions share": (
        lambda x, v: [
            (x + v * 2) * 3,
            (x * v.exp()).sum(1),
            (x.exp() * v.exp() + 1).sum(0),
            x.exp().sum(1),
            x.exp().sum(0),
            x.exp(),
        ],
        (x, v),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)


ONE_ELEMENT = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "nansum": lambda x: x.nansum(-1),
    "sum in float64": lambda x: x.sum(-1, dtype=torch.float64),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1),
}


FRACTIONS, INTEGERS = (torch.float32, torch.float64, torch.bfloat16), (torch.int32, torch.uint8)
OF_BOOLS = {"sum", "sum in float64", "prod", "amax", "any", "all"}
OF_INTEGERS = OF_BOOLS | {"argmax"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for dtype in FRACTIONS for name in ONE_ELEMENT),
        *((name, dtype) for dtype in INTEGERS for name in ONE_ELEMENT if name in OF_INTEGERS),
        *((name, torch.bool) for name in ONE_ELEMENT if name in OF_BOOLS),
    ],
)
def test_one_element_is_reduced_to_the_bit(name, dtype):
    """The sum of -0.0 alone is 0.0, because a sum starts with 0; other reductions return the element, bit for bit."""
    for number in (-0.0, 3):
        scalar = torch.tensor(number).to(dtype)
        for given in (scalar, scalar.expand(1), scalar.expand(3, 1)):
            (found,) = targets.run_cpp(programs(ONE_ELEMENT[name], given)[1], (given,))
            assert same_bits(found, ONE_ELEMENT[name](given)), given


WITHOUT_FREEDOM = {
    "var": lambda x: x[:1].var(),
    "var of a dimension": lambda x: x[:1].var(0),
    "std": lambda x: x[:1].std(),
    "both": lambda x: (x[:1].var(), x[:1].std()),
    "std in a sum": lambda x: (x - x[:1].mean()) / x[:1].std(unbiased=True),
    "a large correction": lambda x: torch.var(x, correction=6),
    "of nothing": lambda x: x[:0].var(),
    "of no rows": lambda x: x.view(2, 2)[:0].std(1),
    "var_mean": lambda x: torch.var_mean(x[:1]),
    "std_mean": lambda x: torch.std_mean(x[:1], 0),
    "enough of them": lambda x: (x.var(), x.std(0, correction=3)),
}


@pytest.mark.parametrize(
    "function",
    [lambda x, n: x[2:].var(), lambda x, n: x[: len(x) // 3].std(), lambda x, n: x[:n].std(), lambda x, n: x.std()],
)
def test_a_size_that_is_computed_may_be_without_freedom(function):
    """A symbolic size may be 1 or 0 at a later call: there are as many warnings as in eager mode."""
    compiled = nbcompile.compile(function, fullgraph=True, dynamic=True)
    for size in (9, 3, 2, 5):
        x, texts = torch.arange(float(size)), []
        for called in (function, compiled):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                called(x, 5 - size // 2)
            texts.append([str(warning.message) for warning in caught if "degrees of freedom" in str(warning.message)])
        assert texts[0] == texts[1], size


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WITHOUT_FREEDOM)
def test_a_variance_without_degrees_of_freedom_warns_at_each_call(name, dynamic):
    """The warnings of each call are Python's, with eager mode's count and texts."""
    function = WITHOUT_FREEDOM[name]
    compiled = nbcompile.compile(function, fullgraph=True, dynamic=dynamic)
    x = torch.arange(4.0)

    def texts(called):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            called(x)
        return [str(warning.message) for warning in caught if "degrees of freedom" in str(warning.message)]

    expected = texts(function)
    assert bool(expected) == (name != "enough of them")
    assert [texts(compiled), texts(compiled)] == [expected, expected]
    if expected:
        with warnings.catch_warnings(), pytest.raises(UserWarning, match="degrees of freedom"):
            warnings.simplefilter("error")
            compiled(x)


def test_a_variance_of_many_numbers_is_lowered_for_all_sizes():
    """The lowering needs sizes of at least 9 elements: known of constants, not of each symbol."""
    found = nbcompile.explain(lambda x: x.var(-1).sum() + x.std() + torch.cat([x, x]).var(0).sum(), dynamic=True)
    assert {kernel.language for kernel in found(torch.randn(5, 8)).kernels} == {"cpp"}
    found = nbcompile.explain(lambda x: x.var(correction=9), dynamic=True)
    assert "aten" in {kernel.language for kernel in found(torch.randn(50)).kernels}


@pytest.mark.parametrize("order", [2, 3, 0.5, 1, -1, 0, math.inf])
def test_the_norm_of_one_number_is_its_size(order):
    """The norm of one number is its absolute value: no power of it is 0 or infinite, and it is not rounded."""
    numbers = torch.tensor([3.4e38, -1e-30, -0.0, 0.3, math.nan, -math.inf])
    for given, dim in ((numbers[:, None], 1), (numbers[None].double(), 0), (numbers[:1], None), (numbers[1], None)):
        (found,) = targets.run_cpp(programs(lambda t: torch.linalg.vector_norm(t, order, dim), given)[1], (given,))
        assert same_bits(found, torch.linalg.vector_norm(given, order, dim)), (given.shape, dim)
