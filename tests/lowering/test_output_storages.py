"""Outputs that alias, and outputs that must not."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile.ir import evaluate
from tests.support.lowered import programs


def test_a_clone_that_is_returned_is_a_copy():
    """A clone that is returned does not alias its source."""
    x = torch.randn(4)
    program, plan = programs(lambda x: (x.clone(), x), x)
    for stage in (program, plan):
        copy, same = evaluate.run(stage, [x])
        assert same is x and copy.data_ptr() != x.data_ptr()


def test_results_are_as_many_tensors():
    """A view of a result with the same layout is a second tensor on the same memory; a result twice is one object."""

    def f(x):
        y = x.floor()
        return y, y.view(y.shape), y[...], y

    for shape in ((), (3,), (3, 4)):
        results = nbcompile.compile(f)(torch.randn(shape))
        assert [[one is other for other in results] for one in results] == [
            [one is other for other in (0, 1, 2, 0)] for one in (0, 1, 2, 0)
        ]
        results[1].add_(1)
        assert all(torch.equal(each, results[0]) for each in results)
