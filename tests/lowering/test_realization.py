"""Realization: which values are buffers."""

from __future__ import annotations

import torch

from nbcompile.ir.buffer import Pointwise, Reduction
from tests.support.lowered import programs


def computed(program):
    return [each for each in program.buffers if isinstance(each, (Pointwise, Reduction))]


def test_a_chain_is_one_buffer():
    """Pointwise producers with one user are inlined."""
    program, _ = programs(lambda x: torch.relu(x + 1).exp() * 2, torch.randn(4))
    assert len(computed(program)) == 1
    assert computed(program)[0].from_nodes == ("add", "relu", "exp", "mul")


def test_views_are_no_buffers():
    """Views between two pointwise operators are not buffers."""
    program, _ = programs(lambda x: (x + 1).t()[1:].reshape(-1) * 2, torch.randn(4, 6))
    assert len(computed(program)) == 1


def test_what_several_use_is_computed_once():
    """An expensive value with two users is a buffer; a cheap one is not."""
    shared, _ = programs(lambda x: (lambda e: (e + 1, e.sum(0), e * 2))(torch.tanh(x)), torch.randn(4, 4))
    assert "tanh" in computed(shared)[0].from_nodes and len(computed(shared)) == 4
    cheap, _ = programs(lambda x: (lambda e: (e.exp(), e.sin()))(x + 1), torch.randn(4))
    assert len(computed(cheap)) == 2
