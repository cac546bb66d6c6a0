"""Column reductions and scans in Triton: tiles of several steps and several columns."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support import targets
from tests.support.lowered import check, programs, traced

KINDS = {
    "sum": lambda x: x.sum(0), "product": lambda x: (x / 4).prod(0), "largest": lambda x: x.amax(0),
    "where the largest is": lambda x: x.argmax(0), "any": lambda x: (x > 2).any(0), "all": lambda x: (x > -3).all(0),
    "running sum": lambda x: x.cumsum(0), "running largest": lambda x: torch.stack(list(x.cummax(0))[:1]),
    "running log sum": lambda x: x.logcumsumexp(0), "softmax": lambda x: x.softmax(0),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(70, 33), (3, 40)], ids=str)
def test_columns(kind, shape):
    """Each kind gives eager's values if neither the steps nor the columns fill their last tile."""
    torch.manual_seed(0)
    check(KINDS[kind], torch.randn(shape), cpp=False)


def test_steps_are_loaded_together():
    """One iteration loads 32 steps of 32 columns; a short reduction loads all its steps, and more columns."""
    _, planned = programs(KINDS["running sum"], torch.randn(70, 33))
    assert "tl.full([32, 32], 0" in generator.emit(planned).kernels[0].source
    _, planned = programs(KINDS["sum"], torch.randn(3, 40))
    assert "tl.full([4, 256], 0" in generator.emit(planned).kernels[0].source


def test_columns_of_dynamic_length():
    """The numbers of steps and of columns may be symbolic."""
    x = torch.randn(45, 21)
    planned = schedule(lower(traced(KINDS["sum"], x, dynamic=True)))
    assert torch.allclose(targets.run_triton(planned, (x,))[0], x.sum(0), atol=1e-5)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(0), lambda x: x.t().softmax(-1), lambda x: x.cumsum(0)
], ids=["columns", "transposed rows", "scan"])  # fmt: skip
def test_steps_have_64_bits_where_their_offsets_need_them(function):
    """65536 steps with a stride of 65536 exceed 2**31: the step is widened to int64 before the product."""
    planned = schedule(
        lower(traced(function, torch.empty(2**16, 2**16, device="meta")), True, False, torch.device("cuda", 0))
    )
    steps = [
        line for kernel in generator.emit(planned).kernels for line in kernel.source.splitlines() if " inner = " in line
    ]
    assert steps
    assert all(".to(tl.int64)" in line for line in steps)
