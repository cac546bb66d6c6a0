"""Fusion of a buffer into a group: which loops are matched, or the reason for a rejection."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import LoopBuffer
from nbcompile.lowering import lower
from nbcompile.scheduling.groups import Group, Incompatible, join, passes, singleton_group
from tests.support.lowered import traced


def buffers(function, *inputs) -> list[LoopBuffer]:
    program = lower(traced(function, *inputs))
    return [buffer for buffer in program.buffers if isinstance(buffer, LoopBuffer)]


def group_of(function, *inputs) -> Group:
    """A group of all loop buffers of a function, fused one by one."""
    first, *others = buffers(function, *inputs)
    group = singleton_group(first)
    for buffer in others:
        group = join(group, buffer)
    return group


def sizes(loops) -> list[int]:
    return [int(loop.size) for loop in loops]


def test_one_buffer_is_a_group():
    """Loops of one iteration are dropped; a reduced dim is an inner loop."""
    group = group_of(lambda x: x.sum(2), torch.randn(4, 1, 6))
    assert sizes(group.outer_loops()) == [4] and sizes(group.inner_loops()) == [6]


def test_a_softmax_is_rows_with_inner_loops():
    """The maximum, the sum and the quotient share the outer loop over rows; the elements are in later passes."""
    group = group_of(lambda x: torch.softmax(x, -1), torch.randn(8, 32))
    assert sizes(group.outer_loops()) == [8] and sizes(group.inner_loops()) == [32]
    order = [passes(group)[member.buffer.name] for member in group.members]
    assert order == sorted(order) and order[0] == 0 and order[-1] == 2


def test_loops_are_matched_by_what_is_read():
    """The loops of a transposed reader are matched with those of the producer by the index."""

    def function(x):
        y = x.sin()
        return y, y.t() + 1

    first, second = buffers(function, torch.randn(3, 5))
    group = join(singleton_group(first), second)
    assert group.members[1].results == group.members[0].results[::-1]


def test_a_row_result_runs_before_the_first_pass():
    """A value that needs no element of the row is computed before the first pass over the row."""

    def function(x, w):
        scale = w.exp()
        return scale, (x * scale[:, None]).sum(1)

    group = group_of(function, torch.randn(4, 6), torch.randn(4))
    assert sorted(passes(group).values()) == [-1, 0]


REJECTIONS = {
    "reduces a part of the loops": (
        lambda x: (x.sum(1), x.sum(0)),
        [(4, 6)],
        "loops",
    ),
    "reads another element": (
        lambda x: (x.sum(1), x.sum(1).flip(0) * 2),
        [(8, 4)],
        r"it reads buf\d at other offsets",
    ),
    "other sizes": (lambda x, y: (x.sin(), y.cos()), [(3, 5), (7,)], r"loops over 7 and over 3 x 5"),
    "overwrites what is read at another place": (
        lambda x: (x.flip(0) + 1, x.mul_(2)),
        [(8,)],
        "overwritten, and read at other offsets",
    ),
    "one loop along two": (lambda x: torch.diagonal(x.sum(2)) * 2, [(4, 4, 3)], "along two loops at once"),
}


@pytest.mark.parametrize("name", REJECTIONS)
def test_a_rejection_has_its_reason(name: str):
    """A buffer that cannot be fused raises an error that names the loops or the memory in the way."""
    function, shapes, reason = REJECTIONS[name]
    with pytest.raises(Incompatible, match=reason):
        group_of(function, *(torch.randn(shape) for shape in shapes))
