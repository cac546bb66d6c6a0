"""The fusion log has an entry for each pair of neighbours, with a reason and the memory traffic that fusion saves."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import Extern, LoopBuffer
from nbcompile.scheduling.dependencies import reads
from tests.support.lowered import check


def plan_of(function, *arguments, dynamic=False):
    """The schedule of a function."""
    return check(function, *arguments, dynamic=dynamic, allow_extern=True)[1]


def entries(plan):
    """The log entry of each pair."""
    return {(each.first, each.second): each for each in plan.decisions}


def test_a_value_between_two_operators_is_neither_written_nor_read():
    """Fusion saves a store and a load of the buffer in between, 64 x 1000 x 4 bytes, and one load of x."""
    plan = plan_of(lambda x: torch.softmax(x, -1), torch.randn(64, 1000))
    found = entries(plan)
    assert all(each.fused for each in plan.decisions)
    assert found["buf1", "buf2"].saved == 2 * 64 * 1000 * 4
    assert found["buf0", "buf1"].saved == 2 * 64 * 4 + 64 * 1000 * 4


def test_memory_that_two_read_is_read_once():
    """Two fused reductions read their input once."""
    plan = plan_of(lambda x: (x.sum(), (x * x).amax()), torch.randn(100, 8))
    (entry,) = plan.decisions
    assert (entry.fused, entry.saved, entry.reason) == (True, 100 * 8 * 4, "both read arg0_1")


def test_a_call_of_aten_is_a_neighbour_with_a_reason():
    """A call of ATen is a neighbour, too, with a reason why it is not fused."""
    plan = plan_of(lambda x, w: torch.relu(x @ w) @ w, torch.randn(8, 8), torch.randn(8, 8))
    assert [(each.fused, each.saved) for each in plan.decisions] == [(False, 0), (False, 0)]
    assert all("a tuned library" in each.reason for each in plan.decisions)


def test_what_is_returned_is_still_written():
    """A returned value is stored, and need not be loaded again."""
    plan = plan_of(lambda x: (e := torch.exp(x), (e / 2).sum(-1)), torch.randn(16, 100))
    assert entries(plan)["buf0", "buf1"].saved == 16 * 100 * 4


def test_bytes_of_symbolic_sizes_are_not_known():
    """The bytes of symbolic sizes are unknown: the entry has None."""
    plan = plan_of(lambda x: torch.softmax(x, -1), torch.randn(7, 9), dynamic=True)
    assert {each.saved for each in plan.decisions} == {None}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.sum(0), x.sum(1), x.sum()),
        lambda x: torch.log_softmax(x @ x, 0).cumsum(1) + x.mean(),
        lambda x: (x.sort().values + 1, x.sin().amax(0) * x.cos().amax(1)),
        lambda x: torch.zeros(8).index_add(0, torch.arange(8), x.exp().sum(0)) * x,
    ],
    ids=["three sums", "a product in it", "a call in it", "a scatter in it"],
)
def test_every_pair_of_neighbours_is_there_once(function):
    """Each pair of producer and consumer has one entry, with a reason."""
    plan = plan_of(function, torch.randn(8, 8))
    pairs = [(each.first, each.second) for each in plan.decisions]
    assert len(pairs) == len(set(pairs))
    assert all(each.reason for each in plan.decisions)
    computed = {each.name for each in plan.program.buffers if isinstance(each, (LoopBuffer, Extern))}
    for buffer in plan.program.buffers:
        if buffer.name in computed:
            assert {(name, buffer.name) for name in reads(buffer) if name in computed} <= set(pairs)
