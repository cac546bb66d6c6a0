"""Generated code for a GPU, run in the simulator, on values that are special: NaN, infinities, zeros, subnormal and largest.

What is compared with eager mode: where results are NaN, infinite or zero, the signs of all but NaN, and the numbers
themselves to rounding. Whole numbers and truth values are equal.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import torch.nn.functional as F

import nbcompile
from tests.support.lowered import flat

pytestmark = [pytest.mark.usefixtures("nothing_compiled"), pytest.mark.rotates(4)]

LARGEST = 3.4028234663852886e38
SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, -2.5, 1e-42, -1e-42, 2.0**-126, LARGEST, -LARGEST]
NUMBER = len(SPECIAL)
x = torch.tensor(SPECIAL).repeat_interleave(NUMBER)
y = torch.tensor(SPECIAL).repeat(NUMBER)
WHOLE = [0, 1, -1, 2, -7, 2**31 - 1, -(2**31)]
m = torch.tensor(WHOLE, dtype=torch.int32).repeat_interleave(len(WHOLE))
n = torch.tensor(WHOLE, dtype=torch.int32).repeat(len(WHOLE))


def require_alike(mine: Any, theirs: Any, name: str) -> None:
    """Assert that two results are equal up to rounding.

    The largest of 0.0 and -0.0 is either, by the order in which eager mode happens to compare a row.
    """
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
    if not theirs.is_floating_point():
        assert torch.equal(mine, theirs), name
        return
    has_order = name.split()[0] not in {"amax", "amin", "max", "min"}
    for fact in (
        torch.isnan,
        torch.isinf,
        lambda t: t == 0,
        lambda t: t.signbit() & ~t.isnan() & (has_order | (t != 0)),
    ):
        wrong = fact(mine) != fact(theirs)
        assert not wrong.any(), (name, wrong.nonzero()[:4].tolist(), mine[wrong][:4], theirs[wrong][:4])
    torch.testing.assert_close(mine, theirs, equal_nan=True, rtol=2e-2 if theirs.itemsize == 2 else 1e-5, atol=1e-30)


def require_eager(function: Any, *inputs: Any, **how: Any) -> None:
    """Assert that each named result of a function is eager's."""
    found = nbcompile.compile(function, options={"target": "sm_90"}, **how)(*inputs)
    for (name, mine), (_, theirs) in zip(found, function(*inputs), strict=True):
        for each, other in zip(flat(mine), flat(theirs), strict=True):
            require_alike(each, other, name)


# --- element by element ----------------------------------------------------------------------------------------------

ONE = """abs neg sign sgn ceil floor trunc round frac relu sqrt rsqrt reciprocal square exp exp2 expm1 log log2 log1p log10
tanh sigmoid erf erfc asin acos atan sinh cosh asinh acosh atanh isnan isinf isfinite signbit positive logical_not
nan_to_num deg2rad rad2deg digamma lgamma isposinf isneginf""".split()
TWO = """add sub mul div eq ne lt le gt ge copysign fmax fmin atan2 hypot pow logaddexp heaviside nextafter xlogy
logical_and logical_or logical_xor floor_divide""".split()
OTHER = {
    "clamp": lambda x, y: x.clamp(-1.0, 1.0), "clamp from below": lambda x, y: x.clamp(min=0.5),
    "clamp by tensors": lambda x, y: torch.clamp(x, y, y + 1), "clamp by nan": lambda x, y: x.clamp(math.nan, 1.0),
    "where": lambda x, y: torch.where(x > y, x, y), "a zero": lambda x, y: torch.where(x == 0, -0.0, x),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -0.0), "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "addcmul": lambda x, y: torch.addcmul(x, y, x), "addcdiv": lambda x, y: torch.addcdiv(x, y, x),
    "0 -": lambda x, y: 0.0 - x, "+ 0": lambda x, y: x + 0.0, "+ -0": lambda x, y: x + -0.0, "- 0": lambda x, y: x - 0.0,
    "* 0": lambda x, y: x * 0.0, "* -1": lambda x, y: x * -1.0, "/ 0": lambda x, y: x / 0.0, "1 /": lambda x, y: 1.0 / x,
    "** 0": lambda x, y: x**0.0, "** .5": lambda x, y: x**0.5, "** 2": lambda x, y: x**2, "** 3": lambda x, y: x**3,
    "** -1": lambda x, y: x**-1, "** -.5": lambda x, y: x**-0.5, "2 **": lambda x, y: 2.0**x,
    "relu6": lambda x, y: F.relu6(x), "hardtanh": lambda x, y: F.hardtanh(x), "leaky_relu": lambda x, y: F.leaky_relu(x),
    "elu": lambda x, y: F.elu(x), "gelu by tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x), "softplus": lambda x, y: F.softplus(x), "hardswish": lambda x, y: F.hardswish(x),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x), "mish": lambda x, y: F.mish(x), "softsign": lambda x, y: F.softsign(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x), "hardshrink": lambda x, y: F.hardshrink(x), "selu": lambda x, y: F.selu(x),
    "tanhshrink": lambda x, y: F.tanhshrink(x), "threshold": lambda x, y: F.threshold(x, 0.0, -0.0),
    "celu": lambda x, y: F.celu(x), "prelu": lambda x, y: F.prelu(x, y[7:8]), "to bool": lambda x, y: x.bool(),
    "to float16": lambda x, y: x.half(), "to bfloat16": lambda x, y: x.bfloat16(), "to float64": lambda x, y: x.double(),
}  # fmt: skip
"""Not here: maximum, minimum, gelu and softshrink, whose zeros or infinities differ in eager mode by vectors (docs/exactness.md)."""
WHOLE_NUMBERS = {
    **{name: getattr(torch, name) for name in ("add sub mul maximum minimum eq lt bitwise_and bitwise_xor").split()},
    "abs": lambda m, n: m.abs(), "neg": lambda m, n: -m, "sign": lambda m, n: m.sign(), "not": lambda m, n: ~m,
    "square": lambda m, n: m * m, "shift": lambda m, n: m << (n & 15), "back": lambda m, n: m >> (n & 15),
    "clamp": lambda m, n: m.clamp(-3, 5), "to int8": lambda m, n: m.to(torch.int8), "to float": lambda m, n: m.float(),
    "// 3": lambda m, n: m // 3, "% 3": lambda m, n: m % 3, "% -3": lambda m, n: m % -3, "fmod": lambda m, n: m.fmod(3),
    "true": lambda m, n: m / 3, "to int64": lambda m, n: m.long() * n, "sum": lambda m, n: m.sum(), "min": lambda m, n: n.min(),
}  # fmt: skip
PROGRAMS = {
    **{name: (lambda x, y, f=getattr(torch, name): f(x)) for name in ONE},
    **{name: getattr(torch, name) for name in TWO},
    **OTHER,
}
GROUP = 16


@pytest.mark.parametrize("begin", range(0, len(PROGRAMS), GROUP))
def test_operators(begin):
    """Sixteen unary and binary operators in one function, with all pairs of special values, equal eager mode."""
    part = list(PROGRAMS.items())[begin : begin + GROUP]
    require_eager(lambda x, y: [(name, program(x, y)) for name, program in part], x, y)


def test_whole_numbers():
    """At the limits of an integer type, sums and products wrap, and quotients are rounded down."""
    require_eager(lambda m, n: [(name, program(m, n)) for name, program in WHOLE_NUMBERS.items()], m, n)


# --- reductions and scans ---------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "prod": torch.prod, "nansum": torch.nansum, "amax": torch.amax, "amin": torch.amin,
    "argmax": torch.argmax, "argmin": torch.argmin, "any": torch.any, "all": torch.all, "logsumexp": torch.logsumexp,
    "var": lambda t, dim: torch.var(t, dim, correction=0), "softmax": torch.softmax, "log_softmax": torch.log_softmax,
    "max": lambda t, dim: list(torch.max(t, dim)), "min": lambda t, dim: list(torch.min(t, dim)),
    "norm": lambda t, dim: t.norm(dim=dim), "largest norm": lambda t, dim: t.norm(float("inf"), dim),
}  # fmt: skip
SCANS = {
    "cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp,
    "cummax": lambda t, dim: list(torch.cummax(t, dim)), "cummin": lambda t, dim: list(torch.cummin(t, dim)),
}  # fmt: skip


def rows(length: int, filled: float) -> torch.Tensor:
    """Rows with a special value in the first, the last, the next to last, or a middle element."""
    places = sorted({0, length - 1, max(length - 2, 0), length // 2})
    found = torch.full((len(places) * NUMBER, length), filled)
    for at in range(len(found)):
        found[at, places[at // NUMBER]] = SPECIAL[at % NUMBER]
    return found


LAYOUTS = {
    "a row of one": (1, 1, False), "a row in registers": (1, 67, False), "columns": (0, 41, False),
    "a row in blocks": (1, 1100, True),
}  # fmt: skip
"""Along which dimension, how many elements, and whether their number is a symbol."""


@pytest.mark.parametrize("operators", [REDUCTIONS, SCANS], ids=["reductions", "scans"])
@pytest.mark.parametrize("layout", [*list(LAYOUTS)[:-1], pytest.param("a row in blocks", marks=pytest.mark.slow)])
def test_reductions_and_scans(layout, operators):
    """Reductions and scans equal eager's for a special value in the first, the last, and other blocks."""
    dim, length, dynamic = LAYOUTS[layout]
    given = [rows(length, filled) for filled in (1.0, -0.0)]
    given = [tensor[3::5] if dynamic else tensor for tensor in given]  # a block of a thousand takes long
    given = [tensor.t().contiguous() if dim == 0 else tensor for tensor in given]
    require_eager(
        lambda a, b: [
            (f"{name} of {which}", operator(tensor, dim))
            for which, tensor in (("ones", a), ("zeros", b))
            for name, operator in operators.items()
        ],
        *given,
        dynamic=dynamic or None,
    )


def test_rows_of_zeros():
    """Eager's sums and scans begin with 0.0; a product keeps the sign of -0.0 across blocks."""
    zeros = [torch.full(shape, -0.0) for shape in ((5, 1), (5, 70))]
    zeros[1][1, 5:] = 0.0
    require_eager(
        lambda *given: [
            (name, operator(tensor, 1))
            for tensor in given
            for name, operator in {**SCANS, "sum": torch.sum, "mean": torch.mean, "nansum": torch.nansum}.items()
        ],
        *zeros, *(tensor.bfloat16() for tensor in zeros),
    )  # fmt: skip
    long = torch.full((2, 1100), -0.0)
    long[1, 3] = 0.0
    require_eager(lambda t: [("cumprod", t.cumprod(1)), ("cummin", list(t.cummin(1)))], long, dynamic=True)


# --- zeros and infinities that eager mode has by the instructions of a processor ----------------------------------------


def test_of_two_zeros():
    """max and min return the second of two zeros, as in the CPU's vectors; fmax and fmin return the first."""
    first, second = torch.tensor([0.0, -0.0, 0.0, -0.0]), torch.tensor([-0.0, 0.0, 0.0, -0.0])
    functions = {torch.maximum: second, torch.minimum: second, torch.fmax: first, torch.fmin: first}
    compiled = nbcompile.compile(lambda a, b: [f(a, b) for f in functions], options={"target": "sm_90"})
    for found, expected in zip(compiled(first, second), functions.values(), strict=True):
        assert torch.equal(found.signbit(), expected.signbit())
        assert not found.any()


def test_gelu_of_infinities():
    """x * 0.5 * (1 + erf(x / sqrt 2)), torch's CUDA formula, is NaN for minus infinity, because 0 * inf is."""
    (found,) = nbcompile.compile(lambda x: [F.gelu(x)], options={"target": "sm_90"})(torch.tensor(SPECIAL))
    given = torch.tensor(SPECIAL)
    formula = given * 0.5 * (1 + torch.erf(given * math.sqrt(0.5)))
    require_alike(found, formula, "gelu")
    assert found[3] == math.inf
    assert found[4].isnan()


def test_zeros_of_softshrink():
    """Up to the limits, softshrink is the number times 0, with its sign."""
    given = torch.tensor([*SPECIAL, 0.3, -0.3, 0.5, -0.5, 0.6, -0.6])
    (found,) = nbcompile.compile(lambda x: [F.softshrink(x)], options={"target": "sm_90"})(given)
    formula = torch.where(given > 0.5, given - 0.5, torch.where(given < -0.5, given + 0.5, given * 0.0))
    require_alike(found, formula, "softshrink")


def test_orders_of_zeros():
    """A stable sort does not reorder 0.0 and -0.0, and a running extremum is the last of equal values."""
    given = torch.tensor([[0.0, -0.0, 1.0, -0.0, 0.0], [-0.0, 0.0, -1.0, 0.0, -0.0]])
    require_eager(
        lambda t: [
            ("sort", list(torch.sort(t, dim=1, stable=True))), ("cummax", list(t.cummax(1))),
            ("cummin", list(t.cummin(1))), ("argmax", t.argmax(1)), ("argmin", t.argmin(1)),
        ],
        given,
    )  # fmt: skip
