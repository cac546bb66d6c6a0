"""Eviction hints of loads: a GPU's cache keeps values that are loaded again."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.codegen import triton
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.lowered import traced

LAST, FIRST, NONE = "evict_last", "evict_first", ""
PROGRAMS = {
    "each element once": (lambda x: x * 2, [(16, 1000)], [NONE]),
    "one row for all rows": (lambda x, b: x + b, [(16, 1001), (1001,)], [NONE, LAST]),
    "one number of each row": (lambda x, b: x + b, [(16, 1001), (16, 1)], [NONE, LAST]),
    "a row in registers": (lambda x: x.sum(-1), [(16, 1000)], [FIRST]),
    "rows beside what is the same for all": (lambda x, b: (x * b).sum(-1), [(16, 1000), (1000,)], [FIRST, LAST]),
    "every third element": (lambda x: x[:, ::3] + 1, [(16, 999)], [LAST]),
    "columns": (lambda x: x.sum(0), [(100, 64)], [FIRST]),
}
"""A program, the sizes of its inputs, and the hint of each load."""


def hints(function, *inputs, device=torch.device("cuda", 0), **how):
    planned = schedule(lower(traced(function, *inputs, **how), device=device))
    loads = [line for kernel in triton.emit(planned).kernels for line in kernel.source.split("\n") if "tl.load" in line]
    return [next((hint for hint in (LAST, FIRST) if hint in line), NONE) for line in loads]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_loaded_again_is_kept(name):
    """A load has the hint evict_last if another program or another row loads the same value, or an adjacent one."""
    function, sizes, expected = PROGRAMS[name]
    assert hints(function, *map(torch.randn, sizes)) == expected


def test_the_last_of_several_loops_keeps_nothing():
    """The last of several loops over a row has evict_first, the loops before it evict_last."""
    softmax = lambda x: x.softmax(-1)  # noqa: E731
    assert hints(softmax, torch.randn(4, 3000), dynamic=True) == [LAST, FIRST]


def test_a_kernel_for_the_cpu_has_none():
    """A kernel for the CPU has no hints."""
    assert hints(lambda x, b: (x + b).sum(-1), torch.randn(16, 1000), torch.randn(1000), device=None) == [NONE, NONE]


def test_the_simulator_runs_loads_with_hints():
    """The simulator ignores hints; the PTX instructions contain them."""
    x, b = torch.randn(5, 300), torch.randn(300)
    found = nbcompile.explain(lambda x, b: (x + b).sum(-1), options={"target": "sm_90"})(x, b)
    torch.testing.assert_close(found.result, (x + b).sum(-1), rtol=1e-4, atol=1e-5)
    (kernel,) = found.kernels
    text = "\n".join(line for each in kernel.gpu.lines for line in each.ptx)
    assert "evict_last" in text
    assert "evict_first" in text
