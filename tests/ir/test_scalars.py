"""Equality of numbers: the compiler distinguishes 0.0 and -0.0, 1 and True, wherever it looks up a number."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.ir import scalars
from nbcompile.ir.expr import Constant, apply
from tests.support.lowered import check, require_equal

NAN, INF = math.nan, math.inf
NUMBERS = (0, 0.0, -0.0, 0j, complex(-0.0, 0.0), complex(0.0, -0.0), False, 1, 1.0, True, 1 + 0j, NAN, -NAN, INF, -INF)


def test_numbers_that_a_program_can_distinguish_are_several():
    """Each of these numbers equals only itself; NaN equals itself as another object, too."""
    for left, right in itertools.product(enumerate(NUMBERS), repeat=2):
        assert scalars.same(left[1], right[1]) == (left[0] == right[0]), (left, right)
    assert scalars.same(float("nan"), float("nan"))


def test_constants_of_the_ir_are_as_their_numbers():
    """Constants, and bodies with them, compare and hash as their numbers and dtypes do."""
    positive, negative = Constant(0.0, torch.float32), Constant(-0.0, torch.float32)
    assert positive != negative
    assert apply("neg", positive) != apply("neg", negative)
    assert len({positive, negative, Constant(0.0, torch.float32), Constant(0.0, torch.float64)}) == 3
    assert Constant(NAN, torch.float32) == Constant(float("nan"), torch.float32)


ZEROS = {
    "quotients": lambda x: [x / 0.0, x / -0.0],
    "choices": lambda x: [torch.where(x > 0, 0.0, -0.0), torch.where(x > 0, x, 0.0), torch.where(x > 0, x, -0.0)],
    "pad": lambda x: [F.pad(x, (1, 1), value=0.0), F.pad(x, (1, 1), value=-0.0)],
    "copysign": lambda x: [torch.copysign(x, 0.0), torch.copysign(x, -0.0)],
    "threshold": lambda x: [F.threshold(x, 1.0, 0.0), F.threshold(x, 1.0, -0.0)],
    "full": lambda x: [torch.full((3,), 0.0), torch.full((3,), -0.0), x * 1],
    "masked_fill": lambda x: [x.masked_fill(x > 0, 0.0), x.masked_fill(x > 0, -0.0)],
    "clamp": lambda x: [x.clamp(min=0.0), x.clamp(min=-0.0), x.clamp(max=0.0), x.clamp(max=-0.0), x.relu()],
    "sums": lambda x: [x * 0 + 0.0, x * 0 + -0.0, x - 0.0, x - -0.0, x * -0.0, x * 0.0],
    "rounded": lambda x: [(x * 0.2).round(), (x * 0.2).ceil(), (x * 0.2).trunc(), x.tanh(), x // 2.0, x % -2.0],
    "truth and numbers": lambda x: [x + 1, x + 1.0, x + True, x * 1, x * 1.0, x * True],
    "scans": lambda x: [x.cumsum(0), x.cumprod(0)],
    "fmax": lambda x: [torch.fmax(x, -x), torch.fmin(x, -x), torch.fmax(x.bfloat16(), -x.bfloat16())],
}


@pytest.mark.parametrize("name", ZEROS)
def test_both_zeros_in_one_graph(name):
    """0.0 and -0.0 (and 1, 1.0, True) in one graph keep their signs and types, on every target."""
    check(ZEROS[name], torch.tensor([1.0, -2.0, 0.0, -0.0, INF, 3.0]))


def test_the_sign_of_nan():
    """A constant -nan has its sign in C++. (Triton's constants do not.)"""
    check(lambda x: [torch.copysign(x, NAN), torch.copysign(x, -NAN)], torch.ones(5), triton=False)


LARGE = torch.tensor([2**24 + 1, 2**31 - 1, 2**53 + 1, 2**62 + 1, 5, 0])


@pytest.mark.parametrize("value", [1.5, -3.7, 2, True])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_integers_outside_a_mask_stay_as_they_are(dtype, value):
    """Only the fill value is converted: a float cannot represent every integer above 2**24."""
    x = LARGE.to(dtype)
    check(lambda x, mask: [x.masked_fill(mask, value), x.masked_fill(mask, torch.tensor(2.5))], x, x < 9)


def test_a_mask_that_broadcasts_the_input():
    """The result has the broadcast shape, and a number is rounded to 16 bits before it is compared."""
    x, mask = torch.randn(1, 4).bfloat16(), torch.tensor([[True], [False], [True]])
    check(lambda x, mask: torch.masked_fill(x, mask, 1.23456789) + 1, x, mask, exact_strides=False)


@pytest.mark.parametrize("of", [lambda x: x.clamp(-300, 300), lambda x: x.half().masked_fill(x > 0, -1e9)])
def test_numbers_that_a_dtype_lacks(of):
    """Numbers outside the dtype's range are left to ATen, which rejects or (torch 2.15) clamps them."""
    x = torch.ones(3, dtype=torch.int8)
    try:
        expected = of(x)
    except RuntimeError as rejection:
        with pytest.raises(RuntimeError, match=str(rejection)):
            nbcompile.compile(of)(x)
    else:
        assert torch.equal(nbcompile.compile(of)(x), expected)


COMPLEX = (complex(NAN, 1), complex(1, INF), complex(-0.0, -INF), complex(INF, NAN), complex(-0.0, 0.0))


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
@pytest.mark.parametrize("number", COMPLEX, ids=str)
def test_complex_numbers_whose_text_is_another(backend, number):
    """Complex constants are printed as calls: ``nanj`` would be a name, and ``-0j`` another number."""

    def function(x, y):
        return x.masked_fill(x.real > 0, number), x * number, torch.full((2,), number), torch.where(y > 0, number, 1.0)

    arguments = torch.randn(4, dtype=torch.complex64), torch.randn(4)
    found, expected = nbcompile.compile(function, backend=backend)(*arguments), function(*arguments)
    require_equal(list(map(torch.view_as_real, found)), list(map(torch.view_as_real, expected)))


@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_complex_nan_as_an_argument(backend):
    """Complex numbers with NaN are distinct constants of the graph, and none is rejected."""

    def function(x, number):
        return x * number, torch.full((2,), number)

    nbcompile.reset()  # entries of the other backend count in the limit
    compiled, x = nbcompile.compile(function, backend=backend), torch.ones(3)
    numbers = (
        complex(NAN, 1),
        complex(NAN, 2),
        complex(1, NAN),
        complex(NAN, NAN),
        complex(NAN, 1),
        complex(NAN, -0.0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in numbers:
            found, expected = compiled(x, number), function(x, number)
            require_equal(list(map(torch.view_as_real, found)), list(map(torch.view_as_real, expected)))


def test_tuples_and_sets_that_hold_nan_as_constants():
    """A tuple with NaN equals another one if its other items are equal."""
    members = frozenset({NAN, 1.0})
    compiled = nbcompile.compile(lambda x, t: (x * len(t) + t[1], NAN in members), backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pair in ((NAN, 1), (NAN, 2), (1.0, 2)):
            require_equal(compiled(torch.ones(3), pair)[0], torch.ones(3) * 2 + pair[1])
            assert compiled(torch.ones(3), pair)[1] is True
