"""Compilers of ATen graphs that AOTAutograd's stage calls."""

import dataclasses

import pytest

from nbcompile.aot.compilers import Compilers


def compiler(graph, examples):
    raise AssertionError("no graph is compiled here")


ALL = Compilers(compiler, compiler, compiler)


def test_a_task_runs_after_the_block_by_default():
    """If nothing runs concurrently, the task runs once, after the block."""
    order = []
    with ALL.concurrently(lambda: order.append("task")):
        order.append("block")
    assert order == ["block", "task"]


def test_a_block_that_fails_needs_no_task():
    """If the block raises, the exception propagates, and the task does not run."""
    order = []
    with pytest.raises(ValueError, match="block"), ALL.concurrently(lambda: order.append("task")):
        raise ValueError("block")
    assert order == []


def test_the_joint_graph_has_no_observer_by_default():
    """The default observer accepts any graph, and the compilers are immutable."""
    assert ALL.on_joint_graph(None) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        ALL.on_joint_graph = print
