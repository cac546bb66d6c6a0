"""The accuracy of the SIMD functions."""

import ctypes
import itertools
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch

import nbcompile
from nbcompile.codegen.header import HEADER
from nbcompile.runtime import cpp
from tests.exactness import BOUNDS, DOUBLE, FEW, SINGLE
from tests.support.targets import compiler

LONG = {
    "erf": mpmath.erf, "erfc": mpmath.erfc, "ndtr": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gelu": lambda x: x * LONG["ndtr"](x), "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)),
}  # fmt: skip
"""Functions of float64 that numpy has not for longer floats."""
PAIRS = ("pow", "atan2", "hypot", "fmod")
WHOLE = {"floor_div": torch.floor_divide, "nextafter": torch.nextafter}
"""Equal to eager's, bit for bit."""

EXACT = {
    "ndtr": lambda x: torch.erfc(x * -(0.5**0.5)) / 2,
    "gelu": lambda x: x * EXACT["ndtr"](x),
    "sigmoid": lambda x: torch.where(x < -88.72283, 0.0, torch.sigmoid(x)),
}
"""float64's answer, where torch has no function of this name that is as exact; eager's sigmoid is 1 / (1 + exp(-x)),
and 0 where the float32 exp is infinite."""

NUMPY = {
    "atan": "arctan", "asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2", "pow": "power",
}  # fmt: skip


def library():
    text = HEADER + "\nusing namespace nb;\n"
    for name in SINGLE:
        text += (
            f"EXPORT void {name}_many(const f32 *a, f32 *o, i64 n) {{ constexpr int W = LANES32; i64 i = 0;"
            f" for (; i + W <= n; i += W) store(o + i, All{{}}, {name}(load<f32, W>(a + i, All{{}})));"
            f" if (i < n) store(o + i, First{{n - i}}, {name}(load<f32, W>(a + i, First{{n - i}}))); }}\n"
        )
    for name in (*DOUBLE, *LONG, "erfinv"):
        text += (
            f"EXPORT void {name}_double(const f64 *a, f64 *o, i64 n) {{ constexpr int W = LANES64;"
            f" for (i64 i = 0; i < n; i += W) store(o + i, All{{}}, {name}(load<f64, W>(a + i, All{{}}))); }}\n"
        )
    for name, (kind, width) in itertools.product(
        (*PAIRS, *WHOLE), (("f32", "LANES32"), ("f32", "1"), ("f64", "LANES64"))
    ):
        text += (
            f"EXPORT void {name}_{kind}_{width}(const {kind} *a, const {kind} *b, {kind} *o, i64 n) {{"
            f" constexpr int W = {width}; for (i64 i = 0; i < n; i += W)"
            f" store(o + i, All{{}}, {name}(load<{kind}, W>(a + i, All{{}}), load<{kind}, W>(b + i, All{{}}))); }}\n"
        )
    text += (
        "EXPORT void halves(const f32 *a, bf16 *b, f16 *h, f32 *back, i64 n) { constexpr int W = LANES32;"
        " for (i64 i = 0; i + W <= n; i += W) { auto x = load<f32, W>(a + i, All{});"
        " store(b + i, All{}, cast<bf16>(x)); store(h + i, All{}, cast<f16>(x)); store(back + i, All{}, cast<f32>(load<f16, W>(h + i, All{}))); } }\n"
    )
    text += (
        "EXPORT void rough(const bf16 *a, bf16 *o, i64 n) { constexpr int W = LANES32; for (i64 i = 0; i < n; i += W)"
        " store(o + i, All{}, cast<bf16>(approximate_gelu(cast<f32>(load<bf16, W>(a + i, All{}))))); }\n"
    )
    return cpp.load(text, compiler()).handle


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def every_kind_of_float():
    """Every 4001st float32, dense sweeps where functions bend, and special values."""
    bits = torch.arange(-(2**31), 2**31, 4001).to(torch.int32).view(torch.float32)
    sweeps = [torch.linspace(-bound, bound, 200_003) for bound in (1.5, 20, 90)] + [torch.linspace(0.5, 2, 200_003)]
    return torch.cat(
        [bits, *sweeps, torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-40])]
    )


@pytest.mark.parametrize("name", SINGLE)
def test_at_most_two_units_in_the_last_place(name):
    """The error of a float32 function is at most 2 ulp (BOUNDS); limits, nan and the sign of zero are exact."""
    x = every_kind_of_float()
    ours = torch.empty_like(x)
    getattr(library(), f"{name}_many")(pointer(x), pointer(ours), ctypes.c_int64(x.numel()))
    exact = EXACT.get(name, getattr(torch, name, None))(x.double())
    rounded = exact.float()
    size = rounded.abs()
    if name == "lgamma":
        rounded[x > 4.0371102e36] = torch.inf  # as in eager mode
    unit = (torch.nextafter(size, torch.tensor(float("inf"))) - size).double()
    error = (ours.double() - exact).abs() / unit
    error[(ours == rounded) | (ours.isnan() & rounded.isnan())] = 0
    assert error.max() <= BOUNDS.get(name, FEW), f"{name}({x[error.argmax()]}) = {ours[error.argmax()]}"
    zero = rounded == 0
    assert torch.equal(torch.signbit(ours[zero]), torch.signbit(rounded[zero]))


def of_few_units(name, ours, exact):
    """True if numpy arrays agree: nan, infinities and signs of zero exactly, other values to some ulp."""
    rounded = exact.astype(ours.dtype)
    same = (ours == rounded) | (np.isnan(ours) & np.isnan(rounded))
    error = np.abs(ours - exact) / np.spacing(np.abs(rounded))
    # If long double is no longer than double, the reference has an error of half an ulp.
    bound = BOUNDS.get(name, FEW) + (np.finfo(exact.dtype).eps > 1e-18 and ours.dtype == np.float64)
    assert np.all(same | (error <= bound)), (name, ours[~same & ~(error <= bound)][:3])
    zero = rounded == 0
    assert np.array_equal(np.signbit(ours[zero]), np.signbit(rounded[zero])), name


SPECIAL = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, 1e-40, np.inf, -np.inf, np.nan, 16777217.0])


@pytest.mark.parametrize("name", DOUBLE)
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_functions_of_float64_err_by_few_units(name):
    """Float64 functions have an error of a few ulp, for random bit patterns and dense sweeps, compared with numpy."""
    random = np.random.default_rng(0)
    sweeps = [np.linspace(-bound, bound, 16384) for bound in (1, 1.5, 5, 90, 710, 9999)]
    x = np.concatenate([random.integers(-(2**63), 2**63, 65536).view(np.float64), *sweeps, SPECIAL])
    of_few_units(name, of_float64(name, x), getattr(np, NUMPY.get(name, name))(x.astype(np.longdouble)))


def of_float64(name, x):
    """The values of a header function over an array."""
    ours, function = np.empty_like(x), getattr(library(), f"{name}_double")
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(ours.ctypes.data), ctypes.c_int64(len(x)))
    return ours


@pytest.mark.parametrize("name", LONG)
def test_error_and_gamma_functions_of_float64_err_by_few_units(name):
    """erf and gamma functions have an error of a few ulp of 40 digits, down to the smallest normal number."""
    bounds = (
        [(-1.2, 1.2), (-7, 4), (-38, 27)]
        if name != "lgamma"
        else [(0.001, 0.5), (0.5, 1.5), (1.5, 2.5), (2.5, 8), (8, 900)]
    )
    x = np.concatenate([np.linspace(low, high, 1016) for low, high in bounds])
    ours = of_float64(name, x)
    with mpmath.workdps(40):
        for given, found in zip(x, ours, strict=True):
            exact = LONG[name](mpmath.mpf(float(given)))
            if abs(exact) > 2.3e-308:
                error = abs(mpmath.mpf(float(found)) - exact) / math.ulp(float(exact))
                assert error <= BOUNDS.get(name, FEW), (given, found, float(error))


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "lgamma"])
def test_limits_of_float64_functions_are_those_of_eager(name):
    """Special values of float64 functions, nan, infinities and the signs of zeros, are exact for random bits."""
    random = np.random.default_rng(0)
    beyond = np.array([27.3, -7.5, 7.5, -8.0, 2.5e305, 2.6e305, 1e-310, -1e-310])
    x = np.concatenate([random.integers(-(2**63), 2**63, 16384).view(np.float64), SPECIAL, beyond])
    ours, eager = torch.from_numpy(of_float64(name, x)), getattr(torch, name)(torch.from_numpy(x))
    torch.testing.assert_close(ours, eager, rtol=1e-15 if name != "lgamma" else 2e-15, atol=1e-307, equal_nan=True)
    assert torch.equal(ours.signbit()[eager == 0], eager.signbit()[eager == 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_sign_of_nan_outside_of_the_domain(dtype):
    """asin, acosh, atanh and (of float32) log1p give the NaN with a sign that eager gives; an input's NaN keeps its."""

    def f(inside):
        beyond, below = inside + 1.5, -2 - inside
        nan = inside * float("nan")
        logarithm = [below.log1p()] if dtype == torch.float32 else []
        return [beyond.asin(), beyond.atanh(), below.acosh(), nan.asin(), (-nan).asin(), nan.acosh(), *logarithm]

    x = torch.linspace(0.1, 0.9, 37, dtype=dtype)
    for found, wanted in zip(nbcompile.compile(f)(x), f(x), strict=True):
        assert found.isnan().all()
        assert torch.equal(found.signbit(), wanted.signbit())


def test_the_inverse_of_erf_is_its_inverse():
    """erfinv in float64 is compared with the inverse of erf or erfc in forty digits."""
    ends = 1 - 2.0 ** -np.arange(2, 54)
    y = np.concatenate([np.linspace(-1, 1, 1002)[1:-1], 10.0 ** -np.arange(1, 300), ends, -ends])
    y = np.ascontiguousarray(y[: len(y) // 8 * 8])
    with mpmath.workdps(40):
        for given, found in zip(y, of_float64("erfinv", y), strict=True):
            x, a = abs(mpmath.mpf(float(found))), abs(mpmath.mpf(float(given)))
            missing = a - mpmath.erf(x) if a < 0.5 else mpmath.erfc(x) - (1 - a)
            error = abs(missing * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(x * x)) / math.ulp(float(x))
            assert error <= BOUNDS["erfinv"], (given, found, float(error))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("kind", ["f32_LANES32", "f32_1", "f64_LANES64"])
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_functions_of_two_numbers_err_by_few_units(name, kind):
    """Functions of two numbers have an error of a few ulp for all special pairs; fmod is exact."""
    x, y, ours = of_pairs(name, kind)
    wide = x.dtype if name == "fmod" else np.longdouble
    of_few_units(name, ours, getattr(np, NUMPY.get(name, name))(x.astype(wide), y.astype(wide)))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", ["f32_LANES32", "f32_1", "f64_LANES64"])
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_whole_quotients_and_neighbours_are_those_of_eager(name, kind):
    """Quotients near an integer are rounded as in eager mode; zeros' signs and infinities are exact."""
    x, y, ours = (torch.from_numpy(each) for each in of_pairs(name, kind))
    eager = WHOLE[name](x, y)
    torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)
    zero = eager == 0
    assert torch.equal(torch.signbit(ours[zero]), torch.signbit(eager[zero]))


def of_pairs(name, kind):
    """Pairs of random bits, random numbers and quotients near integers, and a function's values."""
    random, dtype = np.random.default_rng(0), np.float32 if kind.startswith("f32") else np.float64
    integer = np.int32 if dtype == np.float32 else np.int64
    limits = np.iinfo(integer)
    pairs = [random.integers(limits.min, limits.max, (2, 16384), integer).view(dtype), random.normal(size=(2, 16384))]
    pairs += [random.uniform(0, 20, (2, 16384)), np.stack([np.repeat(SPECIAL, 16), np.tile(SPECIAL, 16)])]
    pairs += [np.stack([random.integers(-9999, 9999, 16384) / 10, random.integers(-50, 50, 16384) / 10])]
    x, y = np.ascontiguousarray(np.concatenate(pairs, 1).astype(dtype))
    ours = np.empty_like(x)
    function = getattr(library(), f"{name}_{kind}")
    function(*(ctypes.c_void_p(each.ctypes.data) for each in (x, y, ours)), ctypes.c_int64(len(x)))
    return x, y, ours


def test_sixteen_bit_floats_round_as_torch_rounds():
    """float32 to bfloat16 and float16 is rounded half to even; the cast back is exact for each bit pattern."""
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16).float()
    x = torch.cat([every, torch.nextafter(every, torch.tensor(9e9)), every_kind_of_float()])
    x = x[: x.numel() // 16 * 16].contiguous()
    b, h, back = (
        torch.empty_like(x, dtype=torch.bfloat16),
        torch.empty_like(x, dtype=torch.float16),
        torch.empty_like(x),
    )
    library().halves(pointer(x), pointer(b), pointer(h), pointer(back), ctypes.c_int64(x.numel()))
    for ours, eager in ((b, x.bfloat16()), (h, x.half()), (back, x.half().float())):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)


def test_a_rough_gelu_is_exact_to_bfloat16():
    """The approximate gelu is exact for bfloat16, except for one number in a thousand, and subnormal ones."""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    ours = torch.empty_like(x)
    library().rough(pointer(x), pointer(ours), ctypes.c_int64(x.numel()))
    exact = EXACT["gelu"](x.double()).bfloat16()
    normal = ~(exact.abs() < torch.finfo(torch.bfloat16).smallest_normal) | (exact == 0)
    torch.testing.assert_close(ours[normal], exact[normal], rtol=2**-7, atol=0, equal_nan=True)
    assert ((ours == exact) | exact.isnan())[normal].double().mean() > 0.999


def test_nothing_is_included():
    """The header includes no other header, so that a kernel compiles in a twentieth of a second."""
    assert "#include" not in Path(HEADER and cpp.__file__).parents[1].joinpath("codegen/nbvec.h").read_text().replace(
        "<immintrin.h>", ""
    )
