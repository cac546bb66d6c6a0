"""The choice of a memory pool for a graph, and its release, with a launcher in Python."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from nbcompile import torch_internals
from nbcompile.gpu import graph_pools


class Module:
    """The launcher's function without a GPU: each pool is ready and idle by default."""

    def make_pool(self, device):
        return SimpleNamespace(is_ready=True, is_idle=True, ready=lambda: None, idle=lambda: None)


@pytest.fixture
def torchs(monkeypatch):
    """The calls of torch's allocator."""
    asked: list[tuple] = []
    numbers = itertools.count(1)
    monkeypatch.setattr(graph_pools, "_pools", [])
    monkeypatch.setattr(torch_internals, "new_memory_pool", lambda: (0, next(numbers)))
    monkeypatch.setattr(
        torch_internals, "memory_pool_release", lambda: lambda *given: asked.append(("release", *given))
    )

    @contextmanager
    def allocating(*given):
        asked.append(("begin", *given))
        yield
        asked.append(("end", *given))

    monkeypatch.setattr(torch_internals, "allocating_from", allocating)
    return asked


def answers(pool, ready, idle):
    pool.memory.ready, pool.memory.idle = (lambda: ready), (lambda: idle)


def test_a_pool_that_is_ready_is_shared(torchs):
    """A ready pool is shared by graphs of one device."""
    module = Module()
    first = graph_pools.pool_for(module, 0)
    answers(first, True, True)
    assert graph_pools.pool_for(module, 0) is first
    assert graph_pools.pool_for(module, 1) is not first
    assert first.neighbours() == "; its memory is that of 1 other graph"
    with first.allocating():
        pass
    assert torchs == [("begin", 0, (0, 1)), ("end", 0, (0, 1))]


def test_where_none_is_ready_another_one_begins(torchs):
    """If no pool is ready, a new one begins, which the next graph tries first."""
    module = Module()
    first = graph_pools.pool_for(module, 0)
    answers(first, False, True)
    second = graph_pools.pool_for(module, 0)
    answers(second, True, True)
    assert second is not first
    assert graph_pools.pool_for(module, 0) is second
    assert first.neighbours() == ""


def test_a_pool_is_given_back_once_for_each_recording(torchs):
    """A pool is released after its last recording, once no live output is in it."""
    module = Module()
    pool = graph_pools.pool_for(module, 0)
    answers(pool, True, False)
    graph_pools.pool_for(module, 0)
    pool.drop()
    pool.drop()
    assert torchs == []
    answers(pool, True, True)
    other = graph_pools.pool_for(Module(), 0)
    answers(other, True, False)
    other.drop()
    assert torchs == [("release", 0, (0, 1))] * 2
    assert graph_pools._pools == [other]
