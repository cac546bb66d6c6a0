"""What the machine code of a kernel says of its threads: a stack frame that nothing accesses is no spill."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import build as build_module, cubins, elf
from nbcompile.gpu.build import build
from nbcompile.gpu.chip import CHIPS
from nbcompile.runtime import triton as runtime
from tests.lowering.programs import programs


def emitted_kernel(function, *inputs):
    """The last kernel, and the function that ``@triton.jit`` made."""
    _, planned = programs(function, *inputs)
    emitted = generator.emit(planned)
    kernel = emitted.kernels[-1]
    return kernel, getattr(runtime.load_source(emitted.source), kernel.name)


def summed(table, ids):
    """Check indices in a loop over a long row."""
    return table[ids].sum(-1)


@pytest.mark.parametrize("chip", [CHIPS["sm_90"], CHIPS["sm_100"]], ids=lambda chip: chip.name)
def test_a_frame_for_a_failed_assertion_is_no_spill(chip):
    """The check of an index calls a function of the driver, for which ptxas makes a frame."""
    kernel, function = emitted_kernel(summed, torch.zeros(600), torch.zeros(4, 20000, dtype=torch.int64))
    built = build(function, generator.signature(kernel), chip, kernel.warps)
    assert "__assertfail" in built.ptx
    assert elf._of_thread(built.cubin, elf.FRAME) > 0
    assert built.spilled_bytes == 0


@pytest.fixture
def narrow():
    """A kernel whose one warp would have to keep 8192 numbers in 8160 registers."""
    kernel, function = emitted_kernel(lambda x: x.softmax(-1), torch.zeros(2, 8192))
    return replace(kernel, warps=1), function


def test_a_kernel_that_spills_gets_more_warps(narrow):
    """The machine code of one warp loads and stores its stack; that of more warps does not."""
    kernel, function = narrow
    first = build_module._build(function, generator.signature(kernel), CHIPS["sm_90"], kernel.warps, 3)
    assert first.spilled_bytes > 100
    built = build(function, generator.signature(kernel), CHIPS["sm_90"], kernel.warps, 3)
    assert built.spilled_bytes == 0
    assert built.threads > first.threads == 32


def test_a_kernel_that_is_launched_gets_them_too(narrow):
    """The worker process is asked again."""
    kernel, _ = narrow
    (cubin,) = cubins.obtain([cubins.Request(kernel, "sm_90")])
    assert cubin.image.threads > 32
    assert elf.spilled_bytes(cubin.image.code, cubin.image.entry) == 0
