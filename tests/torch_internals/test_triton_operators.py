"""Operators of ``torch.library.triton_op``, and where they are traced through."""

from __future__ import annotations

import torch

from nbcompile import torch_internals


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled = torch.library.triton_op("nbtest_internals::doubled", _doubled, mutates_args={})
doubled.register_fake(torch.empty_like)
OPERATOR = torch.ops.nbtest_internals.doubled.default


def test_the_body_is_what_the_operator_runs():
    """Whatever is registered for fake tensors; other operators have none."""
    assert torch_internals.body_of_triton_operator(OPERATOR) is _doubled
    assert torch_internals.body_of_triton_operator(torch.ops.aten.sin.default) is None
    assert torch_internals.body_of_triton_operator(torch.sin) is None


def test_it_is_traced_through_where_kernels_can_be_launched():
    """Elsewhere it is a call; outside of both torch decides."""
    assert not torch_internals.is_traced_through(OPERATOR)
    with torch_internals.launching_triton_operators(True):
        assert torch_internals.is_traced_through(OPERATOR)
        assert not torch_internals.is_traced_through(torch.sin)
        with torch_internals.launching_triton_operators(False):
            assert not torch_internals.is_traced_through(OPERATOR)
        assert torch_internals.is_traced_through(OPERATOR)
