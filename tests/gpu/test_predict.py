"""The predicted time of a launch."""

from __future__ import annotations

import pytest

from nbcompile.gpu import predict
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.costs import SECTOR, Costs
from nbcompile.gpu.machine_code import MachineCode

CHIP = CHIPS["sm_90"]
KERNEL = MachineCode("", b"", 128, 0, 16, 0)


def times(blocks: int = 132, waits: int = 0, touched: int = 0, **costs: int) -> predict.Times:
    return predict.times(KERNEL, blocks, Costs(0, **costs), waits, touched, CHIP)


@pytest.mark.parametrize(
    ("found", "limit"),
    [
        (times(sectors=10**9), "memory"),
        (times(132 * 16, instructions=10**12), "issue"),
        (times(waits=10**6), "latency"),
        (times(matrix_work=10**15), "matrix"),
    ],
    ids=lambda found: found if isinstance(found, str) else "",
)
def test_the_slowest_part_limits_a_launch(found, limit):
    """The predicted time is that of the slowest part, plus the launch; the part is named."""
    assert found.limit == limit
    assert found.predicted == predict.LAUNCH_SECONDS + getattr(found, limit)


def test_sectors_move_at_the_rate_that_memory_reaches():
    """The bandwidth is that of the data sheet times the measured fraction."""
    assert times(sectors=1000).memory == pytest.approx(1000 * SECTOR / (predict.REACHED * CHIP.bytes_per_second))


def test_a_few_blocks_leave_multiprocessors_idle():
    """One block takes as many times longer as there are multiprocessors."""
    assert times(1, instructions=1000).issue == pytest.approx(
        CHIP.multiprocessors * times(132, instructions=1000).issue
    )


def test_the_roofline_moves_each_byte_once():
    """The roofline depends on the distinct bytes, and not on how often they are loaded."""
    assert times(touched=10**6, sectors=10**6).roofline == times(touched=10**6).roofline > times().roofline
