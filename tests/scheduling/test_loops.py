"""Loops follow memory: sorted by stride, merged where contiguous, with lanes along adjacent memory."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.kernel import Kernel, Nest
from tests.support.lowered import check, programs

WALKS = {
    "pointwise": lambda x: x.transpose(1, 2).relu(),
    "a sum of all": lambda x: x.transpose(0, 2).sum(),
    "all dimensions moved": lambda x: x.permute(2, 0, 1).exp() * 2,
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", WALKS)
def test_what_walks_memory_from_end_to_end_is_one_loop(name, dynamic):
    """Loops over contiguous memory are merged into one, in any order of dimensions, with symbolic sizes, too."""
    # Positive numbers: a sum of randn may be near 0, where no relative tolerance holds.
    _, plan = programs(WALKS[name], torch.rand(6, 24, 34), dynamic=dynamic)
    (kernel,) = plan.kernels()
    assert len(loops_of(kernel)) == 1, kernel
    check(WALKS[name], torch.rand(6, 24, 34), dynamic=dynamic)


def loops_of(kernel: Kernel):
    return [*kernel.loops, *(loop for each in kernel.body if isinstance(each, Nest) for loop in each.loops)]


@pytest.mark.parametrize(
    "change", [lambda x: x, lambda x: x[:, ::2], lambda x: x.flip(1)], ids=["all", "second", "back"]
)
@pytest.mark.parametrize("reduce", [lambda x: x.var(0), lambda x: x.amax(0)], ids=["variance", "largest"])
def test_lanes_of_columns_that_are_near_each_other(change, reduce):
    """The lanes of a column reduction are columns, also with a stride of 2, or in reverse order."""
    _, plan = programs(lambda x: reduce(change(x)), torch.randn(40, 64))
    for kernel in plan.kernels():
        assert kernel.vector_variable == kernel.loops[-1].variable
    check(lambda x: reduce(change(x)), torch.randn(40, 64))
