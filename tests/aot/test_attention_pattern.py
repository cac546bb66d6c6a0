"""Graphs that look like attention, and are not exactly attention."""

from __future__ import annotations

import pytest
import torch

from tests.aot.test_attention import (
    compiled,
    divided_by_zero,
    grouped_otherwise,
    heads,
    low_bias_is_no_mask,
    other_dimension,
    other_width,
    scaled_after_the_bias,
    scaled_down_after_the_mask,
    turned_after_the_mask,
    weights_returned,
)


@pytest.mark.parametrize(
    "function",
    [
        grouped_otherwise, divided_by_zero, weights_returned, low_bias_is_no_mask, scaled_after_the_bias, other_dimension,
        other_width, scaled_down_after_the_mask, turned_after_the_mask,
    ],
    ids=lambda each: each.__name__,
)  # fmt: skip
def test_what_is_not_exactly_attention_stays(function):
    """A graph is not fused if it uses the weights elsewhere, gives a masked score some weight, or has another order."""
    q, k, v = heads(2, 2, 8, 16)
    result, fused, _ = compiled(function, q, k, v)
    torch.testing.assert_close(result, function(q, k, v), equal_nan=True)
    assert not fused
