"""What is traced in place of a collective that writes, run as plain Python in one process."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from nbcompile.tracing.polyfills import collectives

if not (dist.is_available() and dist.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def group():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_each_writes_what_torchs_function_writes():
    """Sums, gathered and scattered tensors, and exchanged ones."""
    x, world = torch.randn(4, 2), dist.group.WORLD
    for ours, theirs in (
        (lambda y: collectives.all_gather_into(y, x, 1, None), lambda y: dist.all_gather_into_tensor(y, x)),
        (lambda y: collectives.all_gather([y], x, 1, world), lambda y: dist.all_gather([y], x)),
        (lambda y: collectives.reduce_scatter_into(y, x, "sum", 1, None), lambda y: dist.reduce_scatter_tensor(y, x)),
        (lambda y: collectives.all_to_all_single(y, x, None, None, 1, None), lambda y: dist.all_to_all_single(y, x)),
        (lambda y: collectives.all_reduce(y, "sum", world), dist.all_reduce),
    ):
        found, expected = torch.ones(4, 2), torch.ones(4, 2)
        ours(found)
        theirs(expected)
        assert torch.equal(found, expected)
