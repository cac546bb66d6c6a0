"""Nodes without an effect are erased when the graph is finished."""

from __future__ import annotations

import operator

import pytest
import torch

from nbcompile.tracing.graph.unused_nodes import drop_modes_without_effect, drop_unused_numbers
from tests.tracing.graph.growing import call, growing, targets

GRAD = torch._C._set_grad_enabled


@pytest.mark.parametrize(
    ("modes", "left"),
    [
        ((True,), []),
        ((False, True), []),
        ((False, "sin", True), [GRAD, torch.sin, GRAD]),
        ((True, False, False, "sin", True, True), [GRAD, torch.sin, GRAD]),
        ((False,), [GRAD]),
    ],
)
def test_modes_without_effect_are_dropped(modes, left):
    """A node that sets the current mode, or a mode that is replaced before any operator, is removed."""
    output, x = growing(torch.ones(3))
    with torch.enable_grad():
        for mode in modes:
            if mode == "sin":
                call(output, torch.sin, x)
            else:
                output.state_call(GRAD, (mode,))
        drop_modes_without_effect(output.graph, began_with_grad=True)
    assert targets(output) == left


def test_unused_numbers_are_erased_and_operators_stay():
    """Unused numbers are erased; an unused operator on tensors stays, because it may raise an error."""
    output, x = growing(torch.ones(4, 2))
    size = output.apply("call_method", "size", (x, 0), {}, example=4)
    call(output, torch.sin, x)
    output.apply("call_function", operator.floordiv, (size, 2), {}, example=2)
    drop_unused_numbers(output.graph)
    assert targets(output) == [torch.sin]
