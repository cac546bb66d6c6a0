"""Outputs that alias, and outputs that must not."""

from __future__ import annotations

import pytest
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


def bits_of_a_copy(x):
    return x.clone().view(torch.int32)


def bits_of_a_product_by_one(x):
    return (x * 1).view(torch.int32).view(2, -1)


def complex_copy(x):
    return torch.view_as_complex(x.clone())


def real_part_of_a_copy(x):
    return torch.view_as_real(torch.view_as_complex(x).clone())[..., 0]


def conjugated_copy(x):
    return torch.view_as_complex(x).clone().conj()


def a_copy_that_is_written(x):
    copy = x.clone()
    torch.view_as_complex(copy).mul_(2)
    return copy


def a_copy_before_a_write(x):
    copy = x.clone().view(torch.int32)
    x.add_(1)
    return copy


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    "function",
    [
        bits_of_a_copy, bits_of_a_product_by_one, complex_copy, real_part_of_a_copy, conjugated_copy,
        a_copy_that_is_written, a_copy_before_a_write,
    ],
)  # fmt: skip
def test_a_view_by_aten_of_a_copy_is_not_in_the_memory_of_the_input(function):
    """A copy whose view has no lowering is a real one: its values stay where the input is written to."""
    ours, eagers = torch.arange(8.0).view(4, 2), torch.arange(8.0).view(4, 2)
    result, expected = nbcompile.compile(function)(ours), function(eagers)
    assert result.untyped_storage().data_ptr() != ours.untyped_storage().data_ptr()
    for tensor in (ours, eagers):
        tensor.mul_(3)
    assert (result.dtype, result.tolist(), ours.tolist()) == (expected.dtype, expected.tolist(), eagers.tolist())
