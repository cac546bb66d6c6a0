"""Asynchronous copies of the simulator: groups, and bytes in flight."""

from __future__ import annotations

import types

import numpy as np
import pytest

from nbcompile.gpu import copies
from nbcompile.gpu.memory import Actors, Bytes, Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction
from nbcompile.gpu.state import Copy

BOTH = np.array([True, True])


def blocks() -> types.SimpleNamespace:
    """Two threads of one block, each with a copy of one byte in its first group."""
    shared = Bytes(np.zeros(8, np.uint8))
    state = types.SimpleNamespace(
        committed=np.array([0, 0]),
        copies=[Copy(np.array([0, 1]), np.array([0, 4]), np.array([[5], [6]], np.uint8), np.array([0, 0]), "cp")],
        arriving=np.zeros(8, bool),
        shared=shared,
        memory_barriers=types.SimpleNamespace(waited=np.zeros((2, 0), bool)),
        actors=lambda threads: Actors(0 * threads, 0 * threads, 0 * threads),
    )
    state.arriving[[0, 4]] = True
    return state


def test_a_copy_arrives_when_its_group_is_waited_for():
    """The bytes of a copy arrive when its group is committed and waited for, and not before."""
    state = blocks()
    copies.arrive(state, 0, BOTH)
    assert state.shared.content.tolist() == [0] * 8
    copies.copy(state, Instruction("cp", ("async", "commit_group"), ()), BOTH)
    copies.copy(state, Instruction("cp", ("async", "wait_group"), ("1",)), BOTH)
    assert state.shared.content.tolist() == [0] * 8
    with pytest.raises(Fault, match="not waited for"):
        copies.expect_arrived(state, np.array([0]), "ld")
    copies.copy(state, Instruction("cp", ("async", "wait_group"), ("0",)), BOTH)
    assert state.shared.content.tolist() == [5, 0, 0, 0, 6, 0, 0, 0]
    copies.expect_arrived(state, np.array([0]), "ld")
    assert state.copies == []


def test_each_thread_waits_for_its_own_copies():
    """``wait_all`` of one thread does not wait for the copy of another one."""
    state = blocks()
    copies.copy(state, Instruction("cp", ("async", "wait_all"), ()), np.array([True, False]))
    assert state.shared.content.tolist() == [5, 0, 0, 0, 0, 0, 0, 0]
    assert [left.threads.tolist() for left in state.copies] == [[1]]


@pytest.mark.parametrize("modifiers", [("async", "bulk"), ("reduce",), ("async", "mbarrier", "arrive")])
def test_other_copies_are_rejected(modifiers):
    """The error for an unsupported copy names the instruction and its line."""
    with pytest.raises(UnsupportedInstruction, match=r"cp\..* in line 7"):
        copies.copy(blocks(), Instruction("cp", modifiers, (), line=7), BOTH)
