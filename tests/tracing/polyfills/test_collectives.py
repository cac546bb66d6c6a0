"""Replacements of collectives that mutate tensors, run as plain Python in one process."""

from __future__ import annotations

import torch
import torch.distributed as dist

from nbcompile.tracing.polyfills import collectives
from tests.support.one_rank import one_rank  # noqa: F401 - a fixture of every test here


def test_each_writes_what_torchs_function_writes():
    """Each replacement writes the same values as torch's function."""
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
