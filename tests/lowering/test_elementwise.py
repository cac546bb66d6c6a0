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


WITH_ANOTHER = (
    "x + {}", "x - {}", "{} - x", "x % {}", "x.fmod({})", "x == {}", "x >= {}", "{} != x",
    "x * {}", "x / {}", "x // {}", "torch.div(x, {}, rounding_mode='trunc')",
    "torch.mul(torch.as_tensor({}), x)", "torch.div(torch.as_tensor({}), x)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_operands_have_as_many_digits_as_in_eager(dtype, dynamic):
    """Numbers and tensors of other types are rounded to float16 and bfloat16, as second factors and divisors they are not."""
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
    """The factor of a sum is rounded to float16 and bfloat16, that of a product and the weight of lerp are not.

    The sizes are whole vectors: eager mode's kernels compute what is left over in another way.
    """
    torch.manual_seed(0)
    x, y = torch.randn(512).to(dtype), torch.randn(512).to(dtype)
    f = eval(f"lambda x, y: {text}", {"torch": torch})
    found, wanted = nbcompile.compile(f)(x, y), f(x, y)
    assert (found != wanted).sum() <= (
        4 if "lerp" in text or "rsub" in text else 0
    )  # fused multiplication and addition
