"""The registry of lowerings."""

from __future__ import annotations

import pytest
import torch

from nbcompile.lowering import lower  # noqa: F401 - fills the registry
from nbcompile.lowering.registry import LOWERINGS, lowering

aten = torch.ops.aten


def test_operators_are_registered_by_overload():
    """The key is the overload that a node of an ATen graph calls."""
    assert aten.relu.default in LOWERINGS and aten.add.Tensor in LOWERINGS
    assert all(isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) or callable(target)
               for target in LOWERINGS)  # fmt: skip


def test_an_operator_has_one_lowering():
    """A second lowering of one operator is an error that names both functions, and the first one remains."""
    first = LOWERINGS[aten.relu.default]

    def another(build, x):
        raise NotImplementedError

    with pytest.raises(ValueError, match=f"lowered twice: by {first.__name__} and another"):
        lowering(aten.relu.default)(another)
    assert LOWERINGS[aten.relu.default] is first
