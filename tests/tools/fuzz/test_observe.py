"""Facts of values by path: bits, strides, identity, memory."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tools.fuzz.compare import compare
from nbcompile.tools.fuzz.observe import observe


def differ(one, other):
    return compare(observe(one), observe(other), approximate=False) is not None


@pytest.mark.parametrize(("one", "other"), [
    (torch.zeros(2), -torch.zeros(2)),
    (torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)),
    (torch.ones(2, 2), torch.ones(4).as_strided((2, 2), (1, 2))),
    (torch.ones(2), torch.ones(2, requires_grad=True)),
    (1, True), (0.0, -0.0), ([1], (1,)), ({"a": 1}, {"b": 1}),
], ids=repr)  # fmt: skip
def test_what_a_program_can_tell_apart_is_observed(one, other):
    """Signs of zero, dtype, strides, gradients, types and keys; equal values are observed alike."""
    assert differ(one, other) and not differ(one, one)


def test_one_object_met_twice_is_named_by_its_first_place():
    """Two equal objects are something else than one of them twice."""
    x = [1]
    assert differ((x, x), (x, [1]))
    assert "is [0]" in str(observe((x, x))["[1]"])


def test_memory_that_two_tensors_share_is_observed():
    """A view differs from a copy with the same elements."""
    x = torch.ones(4)
    assert differ((x, x[:2]), (x, x[:2].clone()))
