"""The needs of a thread of each kernel on three GPUs, by ptxas's report: nothing runs."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import cubins
from nbcompile.gpu.chip import CHIPS
from tests.support.lowered import programs

KERNELS = {
    "pointwise": (lambda x, y: torch.relu(x * y + 1), (torch.randn(1 << 16), torch.randn(1 << 16)), 40, 1.0),
    "softmax": (lambda x: x.softmax(-1), (torch.randn(64, 1000),), 40, 1.0),
    "layer norm": (lambda x: torch.layer_norm(x, (1024,)), (torch.randn(64, 1024),), 40, 1.0),
    "sum of columns": (lambda x: x.sum(0), (torch.randn(512, 256),), 40, 1.0),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous(), (torch.randn(2, 16, 30, 30),), 48, 0.6),
}
"""A program, its inputs, the registers that a thread may need, and the least occupancy."""


@pytest.mark.parametrize("chip", CHIPS.values(), ids=list(CHIPS))
@pytest.mark.parametrize("name", KERNELS)
def test_registers_spills_and_occupancy(name, chip):
    """No thread spills registers, and the occupancy is the possible maximum."""
    function, inputs, registers, occupancy = KERNELS[name]
    _, planned = programs(function, *inputs)
    (kernel,) = generator.emit(planned).kernels
    (built,) = [cubin.machine_code for cubin in cubins.obtain([cubins.Request(kernel, chip.name)])]
    assert built.spilled_bytes == 0
    assert built.registers <= registers
    assert built.occupancy(chip) >= occupancy
    assert built.ptx.count(f".target {chip.name}") == 1
