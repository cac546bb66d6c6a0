"""Overlap of two views of one storage."""

from __future__ import annotations

import pytest
import torch

from nbcompile.aot.memory_distance import same_layout, share_bytes


@pytest.mark.parametrize(("one", "other", "expected"), [
    (lambda t: t[0:3], lambda t: t[2:5], True),
    (lambda t: t[0:3], lambda t: t[3:5], False),
    (lambda t: t[::2], lambda t: t[1::2], False),
    (lambda t: t[::2], lambda t: t[::3], True),
    (lambda t: t.view(4, 6)[:, :2], lambda t: t.view(4, 6)[:, 2:], False),
    (lambda t: t.view(4, 6)[:, :3], lambda t: t.view(4, 6)[:, 2:], True),
    (lambda t: t[0:0], lambda t: t, False),
])  # fmt: skip
def test_bytes_are_shared_where_an_index_says_so(one, other, expected):
    """The answer equals that of a count of the shared elements, in both orders."""
    memory = torch.arange(24)
    first, second = one(memory), other(memory)
    assert bool(set(first.flatten().tolist()) & set(second.flatten().tolist())) is expected
    assert share_bytes(first, second) is share_bytes(second, first) is expected


def test_an_equal_layout_has_offset_sizes_and_strides_alike():
    """Two views have equal layouts if offset, sizes and strides are equal."""
    memory = torch.arange(24)
    assert same_layout(memory.view(4, 6), memory.view(4, 6))
    assert not same_layout(memory.view(4, 6), memory.view(6, 4))
    assert not same_layout(memory[1:3], memory[0:2])
    assert not same_layout(memory, memory.view(1, 24))
