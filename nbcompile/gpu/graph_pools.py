"""The memory of CUDA graphs: those of one stream share it, as they run one after the other.

    pool = pool_for(module, 0)              the pool of the current stream
    with pool.allocating(): ...             what is recorded takes its memory there
    pool.drop()                             that graph is freed

Temporaries of several graphs are at the same addresses: those before and after a graph break, forward and backward, the
sizes of one function. Outputs that are still used while a graph is recorded are not in its memory; others are moved
before it runs (runtime/gpu_graph_memory.h). Where outputs are still used whose memory has been given to another graph
in the meantime, the next graph to be recorded begins a new pool.

In torch: torch/_inductor/cudagraph_trees.py. Read next: nbcompile/runtime/gpu_graph_memory.h
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbcompile import torch_internals
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.torch_internals import MemoryPool


@dataclass(slots=True, weakref_slot=True, eq=False)
class GraphPool:
    """A private pool of torch's allocator, and the outputs that are in it."""

    device: int
    handle: MemoryPool
    memory: Any
    """The launcher's object."""
    module: ModuleType
    release: Callable[[int, MemoryPool], None]
    """Torch's function that releases the memory."""
    recordings: int = 0
    """Number of graphs that are recorded in it."""
    to_release: int = 0
    """Torch counts the users of a pool: one for each recording."""

    @contextmanager
    def allocating(self) -> Iterator[None]:
        """Take the memory of this thread's new tensors from the pool."""
        with torch_internals.allocating_from(self.device, self.handle):
            yield

    def neighbours(self) -> str:
        """Number of graphs with which a recording shares the memory, for the record."""
        others = self.recordings - 1
        return f"; its memory is that of {others} other graph{'s' * (others > 1)}" if others else ""

    def drop(self) -> None:
        """Remove a recording; release the memory after the last one."""
        with _changes:
            self.recordings -= 1
            self.to_release += 1
            _release_unused()


_pools: list[GraphPool] = STATE.add("gpu.graph_pools._pools", [], Lifetime.PROCESS)
"""The newest last."""
_changes = threading.RLock()
"""Any thread may drop the last recording of a pool, while another one requests it."""


def pool_for(module: ModuleType, device: int) -> GraphPool:
    """A pool of the current stream for one more recording."""
    with _changes:
        for pool in reversed(_pools):
            if pool.module is module and pool.device == device:
                # Counted before the call: a finalizer that runs during it would return the memory.
                pool.recordings += 1
                if pool.memory.ready():
                    return pool
                pool.recordings -= 1
        handle, release = torch_internals.new_memory_pool(), torch_internals.memory_pool_release()
        pool = GraphPool(device, handle, module.make_pool(device), module, release, recordings=1)
        _pools.append(pool)
        return pool


def _release_unused() -> None:
    with _changes:
        for pool in list(_pools):
            # An output may be in memory that only the pool holds (free_unused in gpu_graph_memory.h): then the pool is
            # checked again after the next graph is freed. A finalizer may have returned the pool since the list was
            # copied.
            if pool.recordings == 0 and pool.memory.idle() and pool in _pools:
                _pools.remove(pool)
                for _ in range(pool.to_release):
                    pool.release(pool.device, pool.handle)
