"""What torch is asked about the thread, and its private pools of CUDA memory."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile.torch_internals import memory_pools


def test_dispatch_modes_are_counted():
    """One more in each block."""
    before = memory_pools.dispatch_mode_count()
    with TorchDispatchMode(), TorchDispatchMode():
        assert memory_pools.dispatch_mode_count() == before + 2
    assert memory_pools.dispatch_mode_count() == before


def test_a_backward_pass_is_seen_from_inside():
    """By a hook that it calls, and by nobody else."""
    seen = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: seen.append(memory_pools.in_backward_pass()))
    (x * 2).sum().backward()
    assert seen == [True]
    assert not memory_pools.in_backward_pass()


def test_memory_of_a_pool_ends_with_its_block(monkeypatch):
    """The allocator is told of the end after an exception, too; begin and end name the same pool."""
    calls = []
    for name in ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_endAllocateToPool"):
        monkeypatch.setattr(torch._C, name, lambda *given, name=name: calls.append((name, *given)), raising=False)
    with pytest.raises(KeyError), memory_pools.allocating_from(0, (1, 2)):
        raise KeyError
    assert calls == [("_cuda_beginAllocateCurrentThreadToPool", 0, (1, 2)), ("_cuda_endAllocateToPool", 0, (1, 2))]
