"""Lazy values: tensors as bodies over loops."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.expr import Apply, Load, apply, cast, constant
from nbcompile.ir.index import ZERO, indices, loop_variable
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import broadcast_size, broadcast_to, is_free, load, merge_nodes, reindexed, single_load

CPU = torch.device("cpu")
i0, i1, i2 = map(loop_variable, range(3))


def buffer(*size, dtype=torch.float32):
    return load("x", dtype, CPU, indices(size))


def test_a_view_of_a_buffer_is_one_load():
    """A view of a buffer is one load, also if the kernel computes in another dtype."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        value = buffer(2, 3, dtype=dtype)
        assert single_load(value) == Load("x", (i0, i1), dtype) and is_free(value)
    summed = buffer(2, 3).body + 1.0
    assert isinstance(summed, Apply)


def test_a_value_is_free_only_without_work():
    """A cast and a constant are free; an exponential is not."""
    value = buffer(4)
    assert is_free(type(value)(torch.int64, CPU, value.size, cast(value.body, torch.int64)))
    assert is_free(type(value)(torch.float32, CPU, value.size, constant(1.0, torch.float32)))
    assert not is_free(type(value)(torch.float32, CPU, value.size, apply("exp", value.body)))


def test_reindexing_changes_where_elements_are_read():
    """A transpose is another index into the same buffer; the identity returns the same body."""
    value = buffer(2, 3)
    turned = reindexed(value, indices((3, 2)), (i1, i0))
    assert single_load(turned).index == (i1, i0)
    assert reindexed(value, value.size, (i0, i1)).body is value.body


@pytest.mark.parametrize(("sizes", "expected"), [
    ([(2, 3), (3,)], (2, 3)), ([(2, 1), (1, 3)], (2, 3)), ([(), (4,)], (4,)), ([(1,), (1,)], (1,)), ([(1, 0), (5, 1)], (5, 0)),
])  # fmt: skip
def test_shapes_broadcast_as_torch_broadcasts_them(sizes, expected):
    """Shapes broadcast from the right; a 1 expands to any size, 0 included."""
    assert broadcast_size(*map(indices, sizes)) == indices(expected)
    assert torch.broadcast_shapes(*sizes) == expected


def test_sizes_that_may_differ_are_not_lowered():
    """Sizes that may differ are not lowered: ATen raises the error, if there is one."""
    with pytest.raises(NoLowering):
        broadcast_size(indices((2,)), indices((3,)))


def test_a_stretched_dimension_is_read_at_zero():
    """An expanded dimension is indexed with zero; missing dimensions come first."""
    stretched = broadcast_to(buffer(3, 1), indices((2, 3, 4)))
    assert single_load(stretched).index == (i1, ZERO)


def test_the_node_that_is_lowered_stays_last():
    """The node that is lowered is last in the list of origins, because it names the kernel."""
    assert merge_nodes(("a", "b"), ("c", "a")) == ("b", "c", "a")
