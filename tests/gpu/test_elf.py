"""The machine code's figures of a kernel's threads: a stack frame that nothing accesses is no spill."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import cubins, elf
from tests.support.lowered import programs


def emitted_kernel(function, *inputs):
    """The last emitted kernel."""
    _, planned = programs(function, *inputs)
    return generator.emit(planned).kernels[-1]


def summed(table, ids):
    """A sum over a long row with checked indices."""
    return table[ids].sum(-1)


@pytest.mark.parametrize("chip", ["sm_90", "sm_100"])
def test_a_frame_for_a_failed_assertion_is_no_spill(chip):
    """The assertion calls a driver function, which has a stack frame: that is no spill."""
    kernel = emitted_kernel(summed, torch.zeros(600), torch.zeros(4, 20000, dtype=torch.int64))
    (built,) = [cubin.machine_code for cubin in cubins.obtain([cubins.Request(kernel, chip)])]
    assert "__assertfail" in built.ptx
    assert elf._of_thread(built.cubin, elf.FRAME) > 0
    assert built.spilled_bytes == 0


@pytest.fixture
def narrow():
    """A kernel with one warp, whose 8192 numbers exceed its 8160 registers."""
    kernel = emitted_kernel(lambda x: x.softmax(-1), torch.zeros(2, 8192))
    return cubins.Request(replace(kernel, warps=1), "sm_90")


def test_a_kernel_that_spills_gets_more_warps(narrow, monkeypatch, tmp_path):
    """The machine code of one warp accesses the stack; that of more warps does not."""
    (built,) = [cubin.machine_code for cubin in cubins.obtain([narrow])]
    assert built.spilled_bytes == 0
    assert built.threads > 32
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cubins, "MOST_WARPS", 1)
    (first,) = [cubin.machine_code for cubin in cubins.obtain([narrow])]
    assert first.threads == 32
    assert first.spilled_bytes > 100
