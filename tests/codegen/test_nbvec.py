"""The SIMD vocabulary is as exact as it says."""

import ctypes
from pathlib import Path

import pytest
import torch

from nbcompile.codegen.header import HEADER
from nbcompile.runtime import cpp
from tests.codegen.programs import compiler

NAMES = ("exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "ndtr", "gelu", "sigmoid", "sin", "cos")

EXACT = {
    "ndtr": lambda x: torch.erfc(x * -(0.5**0.5)) / 2,
    "gelu": lambda x: x * EXACT["ndtr"](x),
    "sigmoid": lambda x: torch.where(x < -88.72283, 0.0, torch.sigmoid(x)),
}
"""float64's answer, where torch has no function of this name that is as exact; eager's sigmoid is 1 / (1 + exp(-x)),
and 0 where the float32 exp is infinite."""

BOUNDS = {"ndtr": 3, "gelu": 2.5, "sigmoid": 2.01}
"""Functions that take a quotient and an exponential after one another; eager's lose all digits below -5."""


def library():
    text = HEADER + "\nusing namespace nb;\n"
    for name in NAMES:
        text += (
            f"EXPORT void {name}_many(const f32 *a, f32 *o, i64 n) {{ constexpr int W = LANES32; i64 i = 0;"
            f" for (; i + W <= n; i += W) store(o + i, All{{}}, {name}(load<f32, W>(a + i, All{{}})));"
            f" if (i < n) store(o + i, First{{n - i}}, {name}(load<f32, W>(a + i, First{{n - i}}))); }}\n"
        )
    text += (
        "EXPORT void halves(const f32 *a, bf16 *b, f16 *h, f32 *back, i64 n) { constexpr int W = LANES32;"
        " for (i64 i = 0; i + W <= n; i += W) { auto x = load<f32, W>(a + i, All{});"
        " store(b + i, All{}, cast<bf16>(x)); store(h + i, All{}, cast<f16>(x)); store(back + i, All{}, cast<f32>(load<f16, W>(h + i, All{}))); } }\n"
    )
    return cpp.load(text, compiler()).handle


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def every_kind_of_float():
    """Every 4001st float32 there is, dense sweeps where functions bend, and the special values."""
    bits = torch.arange(-(2**31), 2**31, 4001).to(torch.int32).view(torch.float32)
    sweeps = [torch.linspace(-bound, bound, 200_003) for bound in (1.5, 20, 90)] + [torch.linspace(0.5, 2, 200_003)]
    return torch.cat(
        [bits, *sweeps, torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-40])]
    )


@pytest.mark.parametrize("name", NAMES)
def test_at_most_two_units_in_the_last_place(name):
    """A float32 function errs by at most 2 ulp (BOUNDS) of float64's answer; limits and nans are exact, as is the sign of zero."""
    x = every_kind_of_float()
    ours = torch.empty_like(x)
    getattr(library(), f"{name}_many")(pointer(x), pointer(ours), ctypes.c_int64(x.numel()))
    exact = EXACT.get(name, getattr(torch, name, None))(x.double())
    rounded = exact.float()
    unit = (torch.nextafter(rounded.abs(), torch.tensor(float("inf"))) - rounded.abs()).double()
    error = (ours.double() - exact).abs() / unit
    error[(ours == rounded) | (ours.isnan() & rounded.isnan())] = 0
    assert error.max() <= BOUNDS.get(name, 2), f"{name}({x[error.argmax()]}) = {ours[error.argmax()]}"
    zero = rounded == 0
    assert torch.equal(torch.signbit(ours[zero]), torch.signbit(rounded[zero]))


def test_sixteen_bit_floats_round_as_torch_rounds():
    """float32 to bfloat16 and float16 is half to even; back is exact for every pattern (subnormals, inf, nan)."""
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


def test_nothing_is_included():
    """The header needs no other header: that is what makes a kernel compile in a twentieth of a second."""
    assert "#include" not in Path(HEADER and cpp.__file__).parents[1].joinpath("codegen/nbvec.h").read_text().replace(
        "<immintrin.h>", ""
    )
