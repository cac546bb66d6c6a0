"""Layouts of buffers, compared with the addresses of torch's tensors."""

from __future__ import annotations

import itertools

import pytest
import sympy
import torch

from nbcompile.ir import layout

TENSORS = {
    "row-major": torch.empty(2, 3, 4),
    "transposed": torch.empty(3, 2).t(),
    "expanded": torch.empty(3, 1).expand(3, 4),
    "every second": torch.empty(8)[::2],
    "no elements": torch.empty(2, 0, 3),
    "a scalar": torch.empty(()),
    "channels last": torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last),
}
each_tensor = pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)


@each_tensor
def test_offsets_are_those_of_the_tensor(tensor):
    """``at`` is the sum of coordinates times strides; ``elements`` and ``span`` equal torch's counts."""
    found = layout.of_tensor(tensor)
    assert found.elements == tensor.numel()
    highest = -1
    for coordinates in itertools.product(*map(range, tensor.shape)):
        offset = int(found.at([sympy.Integer(each) for each in coordinates]))
        assert offset == sum(at * step for at, step in zip(coordinates, tensor.stride(), strict=True))
        highest = max(highest, offset)
    assert found.span == highest + 1


@each_tensor
def test_dense_is_what_torch_calls_non_overlapping_and_dense(tensor):
    """Dense layouts may have any order of dimensions; a layout without elements does not overlap."""
    assert layout.is_dense(layout.of_tensor(tensor)) == torch.ops.aten.is_non_overlapping_and_dense(tensor)


@pytest.mark.parametrize("size", [(), (3,), (2, 0, 3), (4, 1, 5)])
def test_contiguous_strides_are_torchs(size):
    """Sizes of 0 count as 1 in contiguous strides."""
    assert layout.contiguous(size).stride == torch.empty(size).stride()


def test_channels_last_strides_are_torchs():
    """In channels-last strides, channels vary fastest."""
    assert layout.channels_last((2, 3, 4, 5)).stride == TENSORS["channels last"].stride()


def test_the_stride_of_one_element_does_not_matter():
    """Two layouts are equal if each element has the same address: the stride of a dimension of size 1 has no effect."""
    one = layout.of_tensor(torch.empty(4, 1))
    assert layout.same_addresses(one, layout.Layout(one.size, (one.stride[0], sympy.Integer(77))))
    assert not layout.same_addresses(one, layout.Layout(one.size, (sympy.Integer(2), one.stride[1])))
    assert not layout.same_addresses(one, layout.Layout(one.size, one.stride, sympy.Integer(1)))
    assert not layout.same_addresses(one, layout.of_tensor(torch.empty(4)))


def test_sizes_may_be_symbols():
    """A symbolic row-major layout is dense for all sizes."""
    rows, columns = sympy.symbols("rows columns", positive=True, integer=True)
    found = layout.contiguous((rows, columns))
    assert layout.is_dense(found)
    assert sympy.expand(found.span - rows * columns) == 0
