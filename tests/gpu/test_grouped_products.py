"""Grouped matrix products as kernels of a GPU: eager mode's numbers in the simulator, and the candidates."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile

OURS = {"target": "sm_90", "max_autotune": True, "max_autotune_gemm_backends": "TRITON", "simulation_seconds": 300.0}
OPERATOR = torch.ops.aten._grouped_mm.default


@pytest.fixture(autouse=True)
def forgetful():
    """No test makes the sizes of another one symbolic."""
    nbcompile.reset()


def tensors(*sizes):
    torch.manual_seed(0)
    return [torch.randn(size).to(torch.bfloat16) for size in sizes]


def offsets(*ends):
    return torch.tensor(ends, dtype=torch.int32)


def of_columns(w):
    """Factors of which the columns are adjacent: the strides that the library asks for."""
    return w.transpose(-2, -1).contiguous().transpose(-2, -1)


@pytest.mark.parametrize(("left", "right", "ends", "covered"), [
    ((100, 48), (4, 48, 72), (10, 10, 75, 100), (slice(None),)),
    ((100, 48), (3, 48, 40), (33, 40, 90), (slice(0, 90),)),
    ((3, 40, 48), (48, 104), (10, 10, 104), (slice(None),)),
    ((40, 104), (104, 48), (16, 16, 70, 104), (slice(None),)),
], ids=["rows", "rows that no group has", "columns", "parts of the sum"])  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_groups_are_found_by_the_kernel(left, right, ends, covered, transposed):
    """Groups of rows, of columns, of steps of the sum; one is empty, none is a multiple of a tile."""
    a, b = tensors(left, right)
    b = of_columns(b) if transposed else b
    groups = offsets(*ends)
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups)
    expected = OPERATOR(a, b, groups)
    assert found.result.stride() == expected.stride()
    torch.testing.assert_close(found.result[covered], expected[covered], rtol=2e-2, atol=2e-2)
    (kernel,) = (kernel for kernel in found.kernels if kernel.name == "triton_grouped_mm")
    assert kernel.gpu.spills == 0
    assert len(kernel.autotuning.candidates) > 3


def test_a_group_does_not_see_the_numbers_of_another():
    """An infinite weight of one group makes no number of another one NaN."""
    a, b = tensors((64, 32), (2, 32, 64))
    b[1] = float("inf")
    groups = offsets(20, 64)
    found = nbcompile.compile(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups)
    torch.testing.assert_close(found[:20], OPERATOR(a, b, groups)[:20], rtol=2e-2, atol=2e-2)


def test_what_follows_is_a_kernel_beside_it():
    """An activation of the result."""
    a, b = tensors((64, 32), (2, 32, 64))
    groups = offsets(20, 64)
    found = nbcompile.explain(lambda a, b, groups: torch.relu(OPERATOR(a, b, groups)), options=OURS)(a, b, groups)
    torch.testing.assert_close(found.result, torch.relu(OPERATOR(a, b, groups)), rtol=2e-2, atol=2e-2)
    assert [kernel.language for kernel in found.kernels].count("triton") == 2


def test_a_batch_is_a_product_with_what_follows():
    """Two tensors of three dimensions: the kernel of bmm, its candidates, its epilogue."""
    a, b = tensors((3, 40, 32), (3, 32, 48))
    found = nbcompile.explain(lambda a, b: torch.relu(OPERATOR(a, b)), options=OURS)(a, b)
    torch.testing.assert_close(found.result, torch.relu(OPERATOR(a, b)), rtol=2e-2, atol=2e-2)
    (kernel,) = found.kernels
    assert kernel.language == "triton"
    assert kernel.autotuning.operator == "_grouped_mm"


@pytest.mark.parametrize(("chip", "is_ours"), [("sm_90", False), ("sm_80", True)])
def test_the_library_is_a_candidate(chip, is_ours):
    """Before sm_90 it waits for the offsets, and has a launch for each group: our kernel is faster there."""
    a, b = tensors((128, 64), (8, 64, 64))
    groups = offsets(*range(16, 129, 16))
    options = {"target": chip, "max_autotune": True, "simulation_seconds": 300.0}
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=options)(a, b, groups)
    torch.testing.assert_close(found.result, OPERATOR(a, b, groups), rtol=2e-2, atol=2e-2)
    (kernel,) = (kernel for kernel in found.kernels if "empty_strided" not in kernel.name)
    assert kernel.language == ("triton" if is_ours else "aten")
    assert "library" in kernel.reason or is_ours
    assert {candidate.name for candidate in kernel.autotuning.candidates} >= {"_grouped_mm"}
