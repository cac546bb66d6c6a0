"""Barriers in shared memory: phases, visibility, and waits that never end."""

from __future__ import annotations

import pytest
import torch

from nbcompile.gpu.memory import Fault
from tests.gpu.copied_boxes import INIT, LOAD, TAKE, WAIT, program, run


def test_phases_follow_one_another():
    """The second box arrives in the next phase, which has the other parity."""
    second = "bar.sync 0; mov.b32 %r7, 2;" + LOAD.format(bytes=1024) + WAIT.format(parity=1, number=1) + TAKE
    given, out = run(program() + second)
    assert torch.equal(out, given[2:10, :32])


def test_a_warp_that_did_not_wait_may_read_after_a_barrier():
    """A warp that waited makes the data visible to the others at a barrier of the block."""
    some = "@%p2 bra.uni $L_some; bra.uni $L_take; $L_some:" + WAIT.format(parity=0, number=0) + "$L_take: bar.sync 0;"
    given, out = run(program(wait=some))
    assert torch.equal(out, given[:8, :32])


@pytest.mark.parametrize(("body", "message"), [
    (program(wait="bar.sync 0;"), "asynchronous copy to these bytes is not waited for"),
    (program(bytes_=2048), "for what never arrives"),
    (program(bytes_=512), "more arrives at an mbarrier than it waits for"),
    (program(wait=WAIT.format(parity=1, number=0)), "asynchronous copy to these bytes is not waited for"),
    (program(wait="@%p2 bra.uni $L_some; bra.uni $L_take; $L_some:" + WAIT.format(parity=0, number=0) + "$L_take:"),
     "has not waited for the mbarrier|not waited for"),
    (program().replace(INIT, "mov.b32 %r4, 3072;"), "there is no mbarrier at 3072"),
], ids=["no wait", "too few bytes", "too many bytes", "the other parity", "one warp waits", "no barrier"])  # fmt: skip
def test_a_mistake_is_found(body, message):
    """A missing wait, and a wait that never ends, are found."""
    with pytest.raises(Fault, match=message):
        run(body)
