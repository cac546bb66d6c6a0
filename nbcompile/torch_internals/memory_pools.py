"""Private pools of torch's allocator for CUDA memory: the memory of a recorded CUDA graph is not reused.

    pool = new_memory_pool()
    with allocating_from(0, pool): ...      this thread's allocations come from the pool
    memory_pool_release()(0, pool)          its memory may be freed, as far as no tensor uses it

In torch: c10/cuda/CUDACachingAllocator.h, torch/_inductor/cudagraph_trees.py. Read next: nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

MemoryPool = tuple[int, int]
"""Torch's handle of a pool."""


def new_memory_pool() -> MemoryPool:
    """A pool without memory."""
    handle: MemoryPool = torch._C._graph_pool_handle()
    return handle


@contextmanager
def allocating_from(device: int, pool: MemoryPool) -> Iterator[None]:
    """Take the memory of this thread's new tensors from a pool."""
    torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
    try:
        yield
    finally:
        torch._C._cuda_endAllocateToPool(device, pool)


def memory_pool_release() -> Callable[[int, MemoryPool], None]:
    """The function that releases a pool's memory."""
    release: Callable[[int, MemoryPool], None] = torch._C._cuda_releasePool
    return release


def dispatch_mode_count() -> int:
    """The number of dispatch modes that are active in this thread."""
    count: int = torch._C._len_torch_dispatch_stack()
    return count


def in_backward_pass() -> bool:
    """Return whether this thread computes gradients at the moment."""
    task: int = torch._C._current_graph_task_id()
    return task != -1
