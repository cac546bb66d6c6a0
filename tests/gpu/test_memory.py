"""Memory of a simulated GPU: addresses, bounds, and races."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nbcompile.gpu.memory import ALIGNMENT, GAP, Actors, Bytes, Fault, GlobalMemory, Race

ZERO = np.array([0])


def actor(block: int = 0, warp: int = 0, barriers: int = 0) -> Actors:
    """A single thread."""
    return Actors(np.array([block]), np.array([warp]), np.array([barriers]))


def content() -> Bytes:
    """Sixteen bytes of zeros."""
    return Bytes(np.zeros(16, np.uint8))


def value(number: int) -> np.ndarray:
    """A one-byte value."""
    return np.array([[number]], np.uint8)


def test_what_is_stored_is_loaded():
    """Threads of one warp are ordered: a later load gets the stored value."""
    memory = content()
    memory.store(ZERO, value(7), actor(), "store")
    assert memory.load(ZERO, 1, actor(), "load").tolist() == [[7]]
    assert (memory.was_written.sum(), memory.was_read.sum()) == (1, 1)


@pytest.mark.parametrize(
    ("later", "is_race"),
    [(actor(warp=1), True), (actor(warp=1, barriers=1), False), (actor(block=1, barriers=1), True), (actor(), False)],
    ids=["another warp", "behind a barrier", "another block", "the same warp"],
)
def test_a_barrier_orders_warps_and_not_blocks(later, is_race):
    """A store and a load, or a load and a store of another value, race unless a block barrier is in between."""
    written, read = content(), content()
    written.store(ZERO, value(7), actor(), "store")
    read.load(ZERO, 1, actor(), "load")
    for access in (
        lambda: written.load(ZERO, 1, later, "load"),
        lambda: read.store(ZERO, value(3), later, "store"),
        lambda: read.expect_no_reader(ZERO, 1, later, "store"),
    ):
        if is_race:
            with pytest.raises(Race, match="1 thread in a race"):
                access()
        else:
            access()


def test_several_warps_may_store_one_value():
    """Stores of the same value at one address are no race; a store of another value is."""
    memory = content()
    memory.store(ZERO, value(7), actor(), "store")
    memory.store(ZERO, value(7), actor(warp=1), "store")
    with pytest.raises(Race):
        memory.store(ZERO, value(8), actor(warp=2), "store")


def test_atomic_updates_race_with_plain_accesses_alone():
    """Atomic updates of two blocks do not race; a plain load of a third block does."""
    memory = content()
    memory.note_updates(ZERO, 1, actor(), "atom")
    memory.note_updates(ZERO, 1, actor(block=1), "atom")
    with pytest.raises(Race, match="updates"):
        memory.load(ZERO, 1, actor(block=2), "load")
    assert memory.exchange(0, 1, lambda before: before + 1, "atom").tolist() == [0]
    assert memory.content[0] == 1


def test_tensors_have_aligned_addresses_with_gaps_between():
    """Views of one storage share its range; another tensor is aligned, with a gap in between."""
    memory = GlobalMemory()
    x, y = torch.arange(4.0), torch.ones(4)
    first, view, second = memory.copy_in(x, "x"), memory.copy_in(x[1:], "x[1:]"), memory.copy_in(y, "y")
    assert view == first + 4
    assert second >= first + 16 + GAP
    assert second % ALIGNMENT == 0
    loaded = memory.load(np.array([view], np.uint64), 4, actor(), "load")
    assert loaded.view(np.float32).tolist() == [[1.0]]
    assert memory.touched() == 4


@pytest.mark.parametrize(
    ("offset", "message"),
    [(16, "4 bytes past the end of x"), (-4, "4 bytes before x"), (2, "no multiple of the 4 bytes")],
)
def test_an_access_outside_of_a_tensor_is_a_fault(offset, message):
    """The fault names the nearest tensor and the distance, or the misaligned address."""
    memory = GlobalMemory()
    address = memory.copy_in(torch.arange(4.0), "x") + offset
    with pytest.raises(Fault, match=message):
        memory.load(np.array([address], np.uint64), 4, actor(), "load")


def test_scratch_memory_is_no_result():
    """Scratch memory does not count in the bytes that a kernel has to move."""
    memory = GlobalMemory()
    address = memory.take_scratch(64)
    memory.store(np.array([address], np.uint64), value(1), actor(), "store")
    assert memory.touched() == 0
