"""Elementwise operators: the dtype of the computation."""

import itertools
import warnings

import pytest
import sympy
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.errors import GeneratedCodeWarning
from nbcompile.ir.expr import Constant
from nbcompile.lowering.elementwise import SUPPORTED, promoted
from nbcompile.lowering.value import Value
from tests.lowering.families import b, check_family, every_way, h, n, x, y
from tests.support import targets
from tests.support.lowered import check, programs

DTYPES = sorted(SUPPORTED, key=str)


def tensor(dtype, ndim):
    return torch.empty((2,) * ndim, dtype=dtype)


def value(dtype, ndim):
    return Value(dtype, torch.device("cpu"), (sympy.Integer(2),) * ndim, Constant(0, dtype))


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16])
def test_types_are_promoted_as_torch_promotes_them(default):
    """Operands of each pair of dtypes, as tensors, scalar tensors and numbers, are promoted as in torch."""
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
    """The cached dtypes of one compilation contain no tensor, which inference mode could reject later."""
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
    """A subtraction of a bool raises torch's error."""
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Subtraction"):
        function(x)
    with pytest.raises(RuntimeError, match="Subtraction"):
        nbcompile.compile(function)(x)


WITH_ANOTHER = (
    "x + {}", "x - {}", "{} - x", "x % {}", "x.fmod({})", "x == {}", "x >= {}", "{} != x",
    "x * {}", "x / {}", "x // {}", "torch.div(x, {}, rounding_mode='trunc')",
    "torch.mul(torch.as_tensor({}), x)", "torch.div(torch.as_tensor({}), x)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_operands_have_as_many_digits_as_in_eager(dtype, dynamic):
    """Numbers and tensors of other dtypes are rounded to 16 bits, except as second factors and divisors."""
    x = torch.randn(401).mul(0.5).to(dtype)
    x[::3] = 0.1
    single, double = torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64)
    whole, many = torch.tensor(2049), torch.randint(1, 100000, (401,))
    others = {"number": "0.1", "integer": "2**24 + 1", "size": "x.shape[0] * 1001"}
    others |= {name: name for name in ("single", "double", "whole", "many")}
    lines = [template.format(f"({text})") for template in WITH_ANOTHER for text in others.values()]
    namespace = {"torch": torch}
    exec(f"def f(x, single, double, whole, many):\n    return [{', '.join(lines)}]", namespace)
    f = namespace["f"]
    given = (x, single, double, whole, many)
    for line, found, wanted in zip(lines, nbcompile.compile(f, dynamic=dynamic)(*given), f(*given), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True, msg=line)


OF_THREE = (
    "torch.add(x, y, alpha=0.3)", "torch.sub(x, y, alpha=0.3)", "torch.rsub(x, y, alpha=0.3)",
    "torch.add(x, 0.7, alpha=0.3)", "x.clone().add_(y, alpha=0.3)", "torch.addcmul(x, y, y, value=0.3)",
    "torch.addcdiv(x, y, y.abs(), value=0.3)", "torch.lerp(x, y, 0.3)", "torch.lerp(x, y, y)", "torch.nextafter(x, y)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("text", OF_THREE)
def test_factors_have_as_many_digits_as_in_eager(dtype, text):
    """The factor of a sum is rounded to float16 and bfloat16; the factor of a product and the weight of lerp are not.

    The sizes are multiples of a vector: eager mode's kernels compute the remainder in another way.
    """
    torch.manual_seed(0)
    x, y = torch.randn(512).to(dtype), torch.randn(512).to(dtype)
    f = eval(f"lambda x, y: {text}", {"torch": torch})
    found, wanted = nbcompile.compile(f)(x, y), f(x, y)
    assert (found != wanted).sum() <= (
        4 if "lerp" in text or "rsub" in text else 0
    )  # fused multiplication and addition


FAMILIES = {
    "decimals": (lambda x, h: [value.round(decimals=k) for value in (x * 30, h) for k in (2, 0, -1)], (x, h)),
    "unary": (
        lambda x: [
            getattr(torch, k)(x)
            for k in "exp exp2 expm1 sin cos tan atan sinh cosh asinh tanh erf erfc sigmoid floor ceil trunc round neg abs sign relu frac square reciprocal isnan isinf signbit logical_not".split()
        ],
        (x,),
    ),
    "unary, positive": (
        lambda x: [getattr(torch, k)(x) for k in "log log2 log10 log1p sqrt rsqrt lgamma digamma".split()],
        (x.abs() + 0.1,),
    ),
    "int unary": (
        lambda n: [
            torch.exp(n),
            n.neg(),
            n.abs(),
            n.sign(),
            torch.sqrt(n.abs()),
            n.floor(),
            ~n,
            torch.isnan(n),
            n.float().to(torch.int8),
        ],
        (n,),
    ),
    "binary": (
        lambda x, y, n: [
            x + y,
            x - y,
            x * y,
            x / y,
            x + n,
            n / 3,
            n + 2.5,
            x + 2,
            torch.add(x, y, alpha=2.5),
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            torch.atan2(x, y),
            torch.pow(x.abs(), y),
            x**2,
            x**3,
            x**0.5,
            2**x,
            n**2,
            x // y,
            x % y,
            torch.fmod(x, y),
            n // 3,
            n % 3,
            torch.div(n, 3, rounding_mode="trunc"),
            torch.div(x, y, rounding_mode="trunc"),
            torch.copysign(x, y),
            torch.hypot(x, y),
            1 - x,
            3 / x,
        ],
        (x, y, n),
    ),
    "comparisons": (
        lambda x, y, n, b: [
            x < y,
            x == y,
            n > 2,
            n >= 2.5,
            x != n,
            b & (x < 0),
            b | b,
            b ^ (x > 1),
            torch.logical_and(n, x),
            torch.logical_xor(x, b),
            n & 3,
            n | 1,
            n ^ 2,
            n << 2,
            n >> 1,
            b + b,
            b * b,
        ],
        (x, y, n, b),
    ),
    "bounds": (
        lambda x, y, n: [
            x.clamp(-1, 1),
            x.clamp(min=0),
            x.clamp(max=y),
            n.clamp(0, 3),
            n.clamp(min=0.5),
            torch.clamp(x, y - 1, y + 1),
        ],
        (x, y, n),
    ),
    "choices": (
        lambda x, y, b, n: [
            torch.where(b, x, y),
            torch.where(b, x, 1.0),
            torch.where(b, n, x),
            x.masked_fill(b, -1e9),
            torch.where(b, 1, 0),
        ],
        (x, y, b, n),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)


BOUNDS = {
    "relu": torch.relu, "relu6": F.relu6, "between": lambda x: x.clamp(0, 2), "from": lambda x: x.clamp(min=0),
    "to": lambda x: x.clamp(max=-0.0), "hardtanh": lambda x: F.hardtanh(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_have_eagers_sign_of_zero(name):
    """A value that is clamped to an equal number has eager's sign of zero."""
    given = torch.tensor([-0.0, 0.0, -1.0, 1.0, 9.0] * 8)
    (found,) = targets.run_cpp(programs(BOUNDS[name], given)[1], (given,))
    assert torch.equal(found.signbit(), BOUNDS[name](given).signbit())


def test_powers_are_products():
    """Powers of integers with a constant exponent, and of floats up to 8, are products; powers of two are exact."""
    check(lambda n: [n**0, n**4, n**7, n**63, n.to(torch.uint8) ** 5], n, must_be_triton=True)
    check(lambda x: [x**4, x**5, x**7, x**8, x**9, 2.0**x], x)
    whole = torch.arange(-150.0, 129.0)
    (found,) = targets.run_cpp(programs(lambda x: 2.0**x, whole)[1], (whole,))
    assert torch.equal(found, 2.0**whole)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.bool])
@pytest.mark.parametrize("size", [(0,), (3,)])
def test_complex_numbers_and_integers_of_any_type_are_added(dtype, size):
    """Unsigned integers and complex numbers can be added, although ``torch.promote_types`` rejects the pair."""
    x, y = torch.tensor(1 + 2j), torch.ones(size, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nbcompile.compile(lambda a, b: (a + b, b * a))(x, y)
    for ours, theirs in zip(found, (x + y, y * x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
