"""Functions of torch that are nodes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nbcompile.torch_internals import operators


@pytest.mark.parametrize("function", [
    torch.sin, torch.add, F.relu, F.linear, torch.Tensor.add, torch.Tensor.__add__, torch.linalg.norm, torch.fft.fft,
    torch.special.erf, torch.ops.aten.add, torch.ops.aten.add.Tensor,
])  # fmt: skip
def test_operators_on_tensors_are_nodes(function):
    """Functions, methods of the class, and ATen's own."""
    assert operators.is_operator(function)


@pytest.mark.parametrize("function", [
    torch.save, torch.no_grad, torch.nn.Linear, torch.manual_seed, torch.is_tensor, torch.compile, torch.cond, len,
    torch.set_grad_enabled, torch.nn.Module.__call__,
])  # fmt: skip
def test_others_are_not(function):
    """Classes, functions of state, and what has a handler of its own."""
    assert not operators.is_operator(function)


def test_identities_stay_valid():
    """An id is looked up: the function behind it is kept, so that no other object gets it."""
    assert len({*map(id, operators._KEPT)}) >= len(operators.operator_ids()) > 1000


def test_every_step_of_a_transform_that_this_torch_has_is_a_node():
    """They change the state of the process: without them in the graph it would run outside of the transform."""
    assert all(map(operators.is_operator, operators.transform_steps()))
    assert len(operators.transform_steps()) > 15
