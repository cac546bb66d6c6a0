"""The findings of an audit of the first Triton printer, by number: the generated code does not have them any more.

The numbers are the audit's (F1 to F16); what takes the simulator is tested elsewhere in this folder.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

import torch.nn.functional as F

import nbcompile
from nbcompile.codegen import triton as generator
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.lowering import lower
from nbcompile.runtime.program import expect
from nbcompile.runtime.triton import compile_options
from nbcompile.scheduling import schedule
from tests.gpu import budgets
from tests.gpu.test_capture_limits import reason
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)


def kernels(function, *inputs, dynamic=False):
    """The kernels of a graph on a GPU."""
    program = lower(traced(function, *inputs, dynamic=dynamic), True, False, GPU)
    return generator.emit(schedule(program)).kernels


def text(function, *inputs):
    """The text of the only kernel."""
    (kernel,) = kernels(function, *inputs)
    return kernel.source


def programs(kernel) -> int:
    """The number of programs of a launch."""
    return int(eval(kernel.grid, {"__builtins__": {}}))


def test_f1_both_parts_of_a_concatenation_are_masked():
    """The loads of both operands of a concatenation are masked."""
    source = text(lambda x, y: torch.cat([x, y], 1), torch.randn(4, 16), torch.randn(4, 8))
    masks = [line for line in source.splitlines() if "tl.load" in line]
    assert len(masks) == 2
    assert "~" in masks[1]


def test_f2_index_checks_are_compiled():
    """Kernels with a ``device_assert`` are compiled with the option that enables it."""
    source = text(lambda w, i: F.embedding(i, w), torch.randn(10, 4), torch.randint(0, 10, (5,)))
    assert "tl.device_assert" in source
    assert compile_options(source, 4)["debug"]


@pytest.mark.parametrize("columns", [32000, 50257])
def test_f3_long_and_dynamic_rows_have_kernels(columns):
    """A softmax over rows that exceed the registers, or have a symbolic length, has a kernel."""
    assert kernels(lambda x: x.softmax(-1), torch.randn(4, columns))
    assert kernels(lambda x: x.softmax(-1), torch.randn(4, 1000), dynamic=True)


def test_f4_large_reductions_have_many_programs():
    """A full sum, and a sum over many rows of few columns, have enough programs to fill a GPU."""
    for function, shape in ((lambda x: x.sum(), (1 << 22,)), (lambda x: x.sum(0), (65536, 32))):
        assert programs(kernels(function, torch.empty(shape))[0]) >= 264


def test_f5_indices_have_32_bits_where_they_fit():
    """Indices have 32 bits if they fit: 64-bit arithmetic needs twice the instructions."""
    assert "int64" not in text(lambda x, y: x + y, torch.randn(64, 33), torch.randn(33))


def test_f6_transposed_accesses_go_through_tiles():
    """Loads and stores are contiguous along different sides of a tile."""
    assert "tl.arange(0, 32)[:, None]" in text(lambda x, y: x.t() + y, torch.randn(64, 96), torch.randn(96, 64))


def test_f7_long_rows_have_more_warps():
    """A row of 16384 numbers has more than four warps."""
    (kernel,) = kernels(lambda x: x.softmax(-1), torch.randn(4, 16384))
    assert kernel.warps == 16


def test_f8_f9_full_blocks_have_no_mask():
    """If blocks divide the loop, loads and stores have no mask, and addresses have no broadcast term."""
    source = text(lambda x: x * 2, torch.randn(16, 1024))
    assert "zeros_like" not in source
    assert "<" not in source


def test_f10_a_row_is_loaded_once():
    """Mean and variance of a row in registers use one load."""
    assert text(lambda x: torch.var_mean(x, -1), torch.randn(16, 1000)).count("tl.load") == 1


def test_f11_an_optimiser_is_one_launch():
    """Tensors of different sizes are updated in one kernel."""
    tensors = [torch.randn(size) for size in (4096, 300, 105)]
    assert len(kernels(lambda *xs: torch._foreach_mul(list(xs), 2.0), *tensors)) == 1


APPROXIMATE = {
    "ex2.approx.f32": "2 ulp",
    "ex2.approx.ftz.f32": "2 ulp, and 0 for subnormal numbers",
    "div.full.f32": "2 ulp; in tanh, expm1 and log1p, which are made of exponentials and logarithms",
}
"""Instructions of the case pages that do not round correctly, with the largest error by NVIDIA's manual of PTX."""


def test_f12_approximations_are_known():
    """No page has an unknown approximate instruction; sines, logarithms and roots are exact."""
    used = {name for of_page in budgets.golden().values() for each in of_page.values() for name in each.approximate}
    assert used == set(APPROXIMATE)


def test_f12_divisions_round_correctly():
    """Only one page has an approximate division, in the hyperbolic tangent."""
    instructions = {
        name: {found for of_chip in of_page.values() for found in of_chip.approximate}
        for name, of_page in budgets.golden().items()
    }
    assert {name for name, found in instructions.items() if "div.full.f32" in found} == {"half"}


def test_f13_bfloat16_is_computed_in_float32():
    """bfloat16 is widened after the load and rounded before the store."""
    source = text(lambda x: F.silu(x) * x, torch.randn(64).to(torch.bfloat16))
    assert source.index(".to(tl.float32)") < source.index(".to(tl.bfloat16)")


def test_f14_inputs_are_checked_for_their_device():
    """The wrapper checks each input's device; kernels have the number of their GPU."""
    second = torch.device("cuda", 1)
    x = torch.randn(8)
    emitted = generator.emit(schedule(lower(traced(lambda x: x + 1, x), True, False, second)))
    assert "device='cuda:1'" in emitted.wrapper
    assert [kernel.gpu for kernel in emitted.kernels] == [1]
    with pytest.raises(ValueError, match="compiled for a tensor on cuda:1 was given one on cpu"):
        expect(x, (8,), (1,), torch.float32, device="cuda:1")


def test_f15_what_no_atomic_can_do_is_rejected():
    """An atomic maximum of floats would lose nan, so the operator runs through ATen."""
    with pytest.raises(NoTriton, match="an atomic max of float32"):
        kernels(
            lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), torch.zeros(4), torch.randint(0, 4, (9,)), torch.randn(9)
        )


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda x: x.sum().item() + x, "_local_scalar_dense"),
        (lambda x: x.index_put((x > 0,), x.sum()), "aten.index_put.default"),
    ],
)
def test_f16_what_cannot_be_recorded_is_marked(function, cause):
    """A graph in which the CPU waits is not recorded, and the reason names the operator."""
    assert cause in reason(function, (4, 4))


SUBNORMAL = torch.tensor([1e-42, -1e-42, 0.0, -0.0, 1.5, -1.5, float("nan"), 1e-38, -3e-39] * 4)


@pytest.mark.parametrize(
    "function",
    [
        torch.floor, torch.ceil, torch.trunc, torch.round, torch.sin, torch.erf, torch.sqrt, torch.expm1, torch.tanh,
        lambda x: torch.atan2(x, x.flip(0)), lambda x: torch.fmod(x.clamp(-1e-38, 1e-38), torch.full_like(x, 3e-42)),
        lambda x: torch.remainder(x.clamp(-1e-38, 1e-38), torch.full_like(x, 1e-41)), lambda x: torch.hypot(x, x), lambda x: x // 2e-42,
    ],
)  # fmt: skip
def test_subnormal_numbers_are_kept(function):
    """libdevice functions keep subnormal numbers: ``ceil`` of 1e-42 is 1, and a remainder by 1e-42 is not NaN."""
    found = nbcompile.explain(function, options={"target": "sm_90"})(SUBNORMAL)
    assert [kernel.language for kernel in found.kernels] == ["triton"]
    torch.testing.assert_close(found.result, function(SUBNORMAL), rtol=1e-6, atol=3e-45, equal_nan=True)
    assert torch.equal(
        found.result.signbit() & ~found.result.isnan(), (e := function(SUBNORMAL)).signbit() & ~e.isnan()
    )
