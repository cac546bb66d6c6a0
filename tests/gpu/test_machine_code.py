"""Tests for nbcompile.gpu.machine_code: the number of blocks on a multiprocessor, and the imports of Triton."""

from __future__ import annotations

import pytest

from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.machine_code import MachineCode
from tests.support.processes import python

CHIP = CHIPS["sm_90"]


@pytest.mark.parametrize(
    ("threads", "shared_bytes", "registers", "blocks"),
    [
        (1024, 0, 32, CHIP.threads // 1024),
        (32, 0, 16, CHIP.blocks),
        (128, CHIP.shared_bytes // 3, 16, 3),
        (256, 0, 255, CHIP.registers // (256 * 256)),
    ],
    ids=["threads", "blocks", "shared memory", "registers"],
)
def test_what_is_used_up_first_limits_the_blocks(threads, shared_bytes, registers, blocks):
    """The scarcest resource limits the blocks: registers in groups of eight, shared memory, threads, or block count."""
    built = MachineCode("", b"", threads, shared_bytes, registers, 0)
    assert built.resident_blocks(CHIP) == blocks
    assert built.occupancy(CHIP) == blocks * threads / CHIP.threads


def test_a_process_that_launches_does_not_import_triton():
    """Predictions, product candidates and GPU graphs are imported without Triton."""
    source = "import sys, nbcompile.gpu.predict, nbcompile.gpu.templates, nbcompile.gpu.launched; print('triton' in sys.modules)"
    assert python(source).split() == ["False"]
