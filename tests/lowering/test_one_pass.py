"""Mean and variance, and two reductions of one long row, in one pass over memory on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.ir.buffer import Reduction
from nbcompile.ir.kernel import Kernel
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.lowered import traced
from tests.support.targets import run_triton

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def planned_for_a_gpu(function, *inputs, **how):
    return schedule(lower(traced(function, *inputs, **how), device=GPU))


def interpreted(planned, *inputs):
    """The results of the GPU kernels, run by an interpreter on tensors of the CPU."""
    buffers = tuple(
        replace(buffer, device=CPU) if hasattr(buffer, "device") else buffer for buffer in planned.program.buffers
    )
    steps = tuple(replace(step, device=CPU) if isinstance(step, Kernel) else step for step in planned.steps)
    return run_triton(replace(planned, program=replace(planned.program, buffers=buffers), steps=steps), list(inputs))


PROGRAMS = {
    "softmax": (lambda x: x.softmax(-1), 3),
    "log softmax": (lambda x: x.log_softmax(-1), 3),
    "logsumexp": (lambda x: x.logsumexp(-1), 2),
    "mean and variance": (lambda x: torch.var_mean(x, -1), 2),
    "standard deviation of all": (lambda x: x.std(), 2),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), 3),
    "the middle dimension": (lambda x: x[:, :, None].softmax(1), 3),
}
"""A program, and the number of its kernels."""
CASES = [*((name, 20_011) for name in PROGRAMS), ("softmax", 1 << 15), ("mean and variance", 1 << 15)]
"""A length that no number of parts divides, and one of which all parts are whole."""


@pytest.mark.parametrize(("name", "length"), CASES)
def test_a_long_row_is_loaded_once_for_both(name, length):
    """One kernel loads the parts of a long row once for both reductions, and gives eager's values."""
    function, kernels = PROGRAMS[name]
    x = torch.randn(3, length) * 3 + 50
    planned = planned_for_a_gpu(function, x)
    assert len(list(planned.kernels())) == kernels
    expected = function(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    compiled = nbcompile.compile(function, options={"target": "sm_90"})(x)
    for found in (compiled if isinstance(compiled, tuple) else (compiled,), interpreted(planned, x)):
        for ours, eager in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5 if eager.dtype == torch.float32 else 1e-4)
    nbcompile.reset()


ROWS = {
    "a part of -inf": ([(0, 9000, float("-inf"))]),
    "all of it -inf": ([(0, None, float("-inf"))]),
    "one inf": ([(70, 71, float("inf"))]),
    "one nan": ([(15_000, 15_001, float("nan"))]),
    "far apart": ([(0, 9000, -300.0), (9000, None, 300.0)]),
    "-inf beside small numbers": ([(0, 9000, float("-inf")), (9000, None, -2000.0)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_numbers_that_are_not_finite(name):
    """A part of -inf adds nothing; inf and nan are in the result where eager mode has them."""
    x = torch.randn(2, 20_000)
    for start, stop, value in ROWS[name]:
        x[0, start:stop] = value

    def function(x):
        return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1)

    compiled = nbcompile.compile(function, options={"target": "sm_90"})
    for ours, eager in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-6, equal_nan=True)
    nbcompile.reset()


def test_the_spread_of_numbers_that_are_far_from_zero():
    """The variance of numbers far from zero is as exact as the rounding of their float32 mean allows."""
    torch.manual_seed(0)
    x = torch.randn(2, 40_009, dtype=torch.float64).mul(1e-3).add(1e3).float()
    found = nbcompile.compile(lambda x: torch.var_mean(x, -1), options={"target": "sm_90"})(x)
    for ours, exact in zip(found, torch.var_mean(x.double(), -1), strict=True):
        # The mean of numbers near 1000 has an error of up to 2**-14, its last bit; the deviation is 1e-3.
        torch.testing.assert_close(ours.double(), exact, rtol=(2**-14 / 1e-3) ** 2, atol=0)


EQUAL = {
    "a short row": (lambda x: F.layer_norm(x, x.shape[-1:]), (4, 1000), 1),
    "parts": (lambda x: F.layer_norm(x, x.shape[-1:]), (3, 20_011), 3),
    "whole parts": (lambda x: F.layer_norm(x, x.shape[-1:]), (3, 1 << 15), 3),
    "columns": (lambda x: x.std(0), (300, 640), 4),
    "one tile of columns": (lambda x: x.std(0), (64, 640), 1),
    "all": (lambda x: x.var(), (1 << 17,), 2),
}
"""A program, its input's shape, and the number of its kernels."""


@pytest.mark.parametrize("number", [1e6 + 0.3, 0.1])
@pytest.mark.parametrize("name", EQUAL)
def test_equal_numbers_have_no_distance_from_their_mean(name, number):
    """The norm and the variance of equal numbers are 0, not the rounding error of the mean, without another kernel."""
    function, shape, kernels = EQUAL[name]
    x = torch.full(shape, number)
    planned = planned_for_a_gpu(function, x)
    assert len(list(planned.kernels())) == kernels
    for found in (nbcompile.compile(function, options={"target": "sm_90"})(x), *interpreted(planned, x)):
        assert (found == 0).all()
    nbcompile.reset()


def test_a_cpu_and_short_rows_reduce_one_after_the_other():
    """On a CPU, and for short rows, the reductions follow each other: the row is in a cache or in registers."""
    softmax = lambda x: x.softmax(-1)  # noqa: E731
    x = torch.randn(3, 40_000)
    reductions = [part for part in lower(traced(softmax, x)).buffers if isinstance(part, Reduction)]
    assert [part.kind for part in reductions] == ["max", "sum"]
    assert len(list(planned_for_a_gpu(softmax, x[:, :1000].clone()).kernels())) == 1
