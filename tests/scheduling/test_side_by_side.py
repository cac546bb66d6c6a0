"""Horizontal fusion: independent small kernels are one launch on a GPU."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.codegen import devices
from nbcompile.ir import verify
from nbcompile.ir.printer import print_kernel
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)
SIZES = (64, 64), (300,), (7, 5, 3)


def planned(function, *inputs):
    graph = traced(function, *inputs)
    return schedule(lower(graph, True, False, GPU), verify.verify_program)


def several(*tensors):
    return torch._foreach_add(torch._foreach_mul(list(tensors), 2.0), 1.0)


def test_the_kernels_of_an_optimiser_are_one_launch():
    """Each program runs one of the loops; the simulated results equal eager's, without a fault."""
    tensors = [torch.randn(size) for size in SIZES]
    found = nbcompile.explain(several, options={"target": "sm_90"})(*tensors)
    torch.testing.assert_close(found.result, several(*tensors))
    (kernel,) = found.kernels
    assert kernel.gpu.blocks == 32 + 3 + 1
    assert kernel.gpu.coalescing == 1.0


def test_a_launch_plan_has_the_kernels_together():
    """The verified schedule has one kernel, with all tensors in its text and its launch."""
    tensors = [torch.randn(size) for size in SIZES]
    plan = planned(several, *tensors)
    verify.verify_schedule(plan)
    (kernel,) = plan.kernels()
    assert len(kernel.parts) == 3
    assert print_kernel(kernel).count("parallel for") == 3
    emitted = devices.emit(plan)
    assert emitted.plan is not None
    assert len(emitted.kernels[0].arguments) == 6


def test_kernels_that_depend_on_one_another_stay_apart():
    """Dependent kernels are separate launches: the sum reads the result of the first kernel."""
    kernels = list(planned(lambda x, y: (x + 1).sum() * y.sin() + y, torch.randn(2000, 9), torch.randn(5)).kernels())
    assert not any(kernel.parts for kernel in kernels)


def test_the_kernels_of_a_cpu_stay_apart():
    """On a CPU kernels are not fused horizontally: a launch is a function call."""
    tensors = [torch.randn(size) for size in SIZES]
    kernels = schedule(lower(traced(several, *tensors))).kernels()
    assert [bool(kernel.parts) for kernel in kernels] == [False] * 3
