"""Casts from and to float8: eager's bits, in the interpreter and in the simulator of each chip."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.codegen import triton, triton_float8
from nbcompile.gpu import simulated
from nbcompile.gpu.chip import CHIPS
from nbcompile.ir import evaluate
from nbcompile.ir.buffer import Extern
from tests.lowering.test_one_pass import interpreted, planned_for_a_gpu
from tests.support.lowered import externs, traced

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
FNUZ = [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
OTHERS = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.bool]
WAYS = ["evaluator", "interpreter", *CHIPS]
TWO_TEXTS = ["sm_80", "sm_90"]
"""Chips without the instructions and with them."""


def every_value(dtype):
    """The 256 values of an 8-bit type."""
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def numbers_to_round(dtype):
    """All 16-bit values; float32 values at, between, and next to the float8 values; random bits."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    finite = torch.cat([every_value(narrow).float() for narrow in FLOAT8])
    finite = finite[finite.isfinite()].unique()
    middles = (finite[1:] + finite[:-1]) / 2
    edges = torch.cat([finite, middles, torch.tensor([464.0, 480.0, 512.0, 61440.0, 65536.0])])
    infinity = torch.tensor(float("inf"))
    beside = torch.cat([edges, edges.nextafter(infinity), edges.nextafter(-infinity)])
    generator = torch.Generator().manual_seed(0)
    random = torch.randint(-(2**31), 2**31, (2000,), generator=generator).to(torch.int32).view(torch.float32)
    special = torch.tensor([infinity, -infinity, float("nan"), -float("nan"), 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38])
    return torch.cat([beside, -beside, random, special]).to(dtype)


def run(way, function, x):
    """The function's results; no operator may run through ATen."""
    planned = planned_for_a_gpu(function, x)
    assert externs(planned.program) == []
    if way == "evaluator":
        return evaluate.run(planned, [x], traced(function, x))
    if way == "interpreter":
        return interpreted(planned, x)
    return simulated.load(triton.emit(planned, CHIPS[way].capability), CHIPS[way], getattr)(x)


def bits(x):
    return x.view(torch.uint8)


def narrowed(x):
    return [x.to(narrow) for narrow in FLOAT8]


CASTS = [
    *((torch.float32, way) for way in WAYS),
    *((source, way) for source in (torch.float16, torch.bfloat16, torch.float64) for way in TWO_TEXTS),
]


@pytest.mark.parametrize(("source", "way"), CASTS)
def test_casts_to_8_bits_round_as_eager_mode_does(source, way):
    """A cast to float8 is rounded half to even; subnormals, zeros, NaN and overflow equal eager's."""
    x = numbers_to_round(source)
    for found, expected in zip(run(way, narrowed, x), narrowed(x), strict=True):
        different = bits(found) != bits(expected)
        assert not different.any(), (x[different][:5], found[different][:5], expected[different][:5])


@pytest.mark.parametrize("way", ["interpreter", "sm_90"])
def test_whole_numbers_are_rounded_as_eager_mode_does(way):
    """Integers are rounded by way of float32, as in eager mode."""

    def cast(x):
        return [x.to(source).to(narrow) for source in (torch.int32, torch.uint8, torch.bool) for narrow in FLOAT8]

    x = torch.tensor([0, 1, 2, 3, 17, 100, 255, 464, 465, 61439, 61440, -1, -449, 2**24 + 1])
    for found, expected in zip(run(way, cast, x), cast(x), strict=True):
        assert torch.equal(bits(found), bits(expected))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_each_of_256_values_is_eager_modes(dtype, way):
    """Each of the 256 values is cast to another dtype as in eager mode, with the sign of zero."""

    def cast(x):
        return [x.to(target) for target in OTHERS]

    x = every_value(dtype)
    for found, expected in zip(run(way, cast, x), cast(x), strict=True):
        if not expected.dtype.is_floating_point and expected.dtype != torch.bool:
            finite = x.float().isfinite()  # the result for infinity and NaN is undefined
            found, expected = found[finite], expected[finite]  # noqa: PLW2901
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(*(torch.signbit(each[~each.isnan()]) for each in (found, expected)))


@pytest.mark.parametrize("way", TWO_TEXTS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_from_one_type_of_8_bits_to_the_other(dtype, way):
    """Each value is cast from one float8 dtype to the other as in eager mode."""
    (other,) = (narrow for narrow in FLOAT8 if narrow != dtype)
    x = every_value(dtype)
    assert torch.equal(bits(run(way, lambda x: [x.to(other)], x)[0]), bits(x.to(other)))


@pytest.mark.parametrize("way", TWO_TEXTS)
def test_a_version_of_torch_whose_overflow_is_nan(way, monkeypatch):
    """A value above the range of float8_e4m3fn becomes NaN with its sign if eager mode's does."""
    monkeypatch.setattr(triton_float8, "e4m3fn_saturates", lambda: False)
    x = numbers_to_round(torch.float32)
    expected = bits(x.to(torch.float8_e4m3fn))
    expected = torch.where(x.abs() > 464, expected & 0x80 | 0x7F, expected)
    assert torch.equal(bits(run(way, narrowed, x)[0]), expected)


PROGRAMS = {
    "scaled and back": lambda x: (x * 3).to(torch.float8_e4m3fn).float() * 2,
    "a view of a cast": lambda x: x.to(torch.float8_e5m2).t()[1:],
    "a transposed copy": lambda x: x.to(torch.float8_e4m3fn).t().contiguous(),
    "rows selected": lambda x: x.to(torch.float8_e4m3fn)[torch.arange(3, device=x.device)],
    "a constant": lambda x: torch.zeros_like(x).add(448).to(torch.float8_e4m3fn),
    "a row's largest number as scale": lambda x: (x / x.abs().amax(-1, keepdim=True) * 448).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_casts(name):
    """Programs with casts are kernels throughout, and give eager's results."""
    x = torch.randn(40, 60, generator=torch.Generator().manual_seed(0))
    function = PROGRAMS[name]
    found = nbcompile.explain(function, options={"target": "sm_90"})(x)
    expected = function(x)
    assert found.result.stride() == expected.stride()
    assert torch.equal(found.result.float(), expected.float())
    assert [kernel.language for kernel in found.kernels] == ["triton"]


def test_an_argument_of_8_bits_is_written_to():
    """``copy_`` rounds into a float8 argument."""
    x, y = torch.randn(70), torch.zeros(70, dtype=torch.float8_e5m2)
    nbcompile.compile(lambda y, x: y.copy_(x * 2), options={"target": "sm_90"})(y, x)
    assert torch.equal(bits(y), bits((x * 2).to(torch.float8_e5m2)))


def reasons(function, x):
    program = planned_for_a_gpu(function, x).program
    return [extern.reason for extern in program.buffers if isinstance(extern, Extern)]


@pytest.mark.parametrize("dtype", FNUZ)
def test_types_without_negative_zero_are_casts_of_aten(dtype):
    """A cast of a dtype without negative zero runs through ATen, because no NVIDIA GPU has the dtype."""
    (reason,) = reasons(lambda x: x.to(dtype), torch.randn(5))
    assert reason == f"a cast from torch.float32 to {dtype}, a type that no GPU of NVIDIA's has"
    x = torch.randn(300) * 300
    found = nbcompile.compile(lambda x: x.to(dtype), options={"target": "sm_90"})(x)
    assert torch.equal(bits(found), bits(x.to(dtype)))


def test_what_moves_elements_of_8_bits_under_a_mask_is_a_call_of_aten():
    """Padding of float8 runs through ATen: a kernel would widen each element and round it again."""
    x = torch.randn(5).to(torch.float8_e4m3fn)
    (reason,) = reasons(lambda x: torch.cat([x, x]), x)
    assert reason == "torch.float8_e4m3fn is not computed with"
