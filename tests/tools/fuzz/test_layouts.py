"""Random tensors of each layout."""

from __future__ import annotations

import itertools

import pytest
import torch

from nbcompile.tools.fuzz.layouts import DTYPES, LAYOUTS, make_tensor


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layout_changes_strides_and_neither_shape_nor_dtype(layout, dtype):
    """A layout changes the strides only, with any number of dims and elements, and is deterministic."""
    for shape in ((), (3,), (2, 3, 4, 5), (2, 0)):
        one, other = (make_tensor(shape, dtype, layout, 7, special=True) for _ in range(2))
        assert (one.shape, one.dtype, one.stride()) == (torch.Size(shape), dtype, other.stride())
        assert (
            bytes(one.contiguous().untyped_storage())[: one.nbytes]
            == bytes(other.contiguous().untyped_storage())[: other.nbytes]
        )


def test_layouts_differ():
    """The seven layouts of a shape have different strides and offsets."""
    tensors = [make_tensor((2, 3, 4, 5), torch.float32, layout) for layout in LAYOUTS]
    assert all(
        (one.stride(), one.storage_offset()) != (other.stride(), other.storage_offset())
        for one, other in itertools.combinations(tensors, 2)
    )


def test_special_values_are_there():
    """A thousand values contain NaN, infinities and negative zero."""
    values = make_tensor((1000,), torch.float32, special=True)
    assert values.isnan().any() and values.isinf().any() and (values.signbit() & (values == 0)).any()
    assert make_tensor((1000,), torch.float32).isfinite().all()
