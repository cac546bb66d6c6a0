"""Launches of generated Triton."""

from __future__ import annotations

import types

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.ir.emitted import EmittedKernel
from nbcompile.runtime import triton


@pytest.mark.parametrize(("source", "debug"), [("tl.device_assert(x < 3)", True), ("x + 1", False)])
def test_checks_of_indices_need_debug_mode(source, debug):
    """A kernel with an assertion is compiled in debug mode, without overflow checks and with fused multiply-add."""
    options = triton.compile_options(source, warps=8, stages=2)
    assert (options["debug"], options["sanitize_overflow"], options["enable_fp_fusion"]) == (debug, False, True)
    assert (options["num_warps"], options["num_stages"]) == (8, 2)


def test_an_empty_grid_is_not_launched():
    """An empty grid is not launched, because CUDA rejects it; the grid is computed from the sizes."""
    launched = []
    module = types.SimpleNamespace(k={(2,): lambda *arguments: launched.append(arguments)}, k_grid=lambda size: (size,))
    launch = triton.launcher(module, EmittedKernel("k", "k", "", ("x",)))
    x = torch.ones(2)
    launch(x, 0)
    assert launched == []
    launch(x, 2)
    assert launched == [(x, 2)]


def test_elements_of_eight_floating_bits_are_whole_numbers():
    """A float8 tensor is passed as uint8 in the same memory; other arguments are unchanged."""
    x = torch.ones(2).to(torch.float8_e4m3fn)
    assert triton._bits(x).dtype is torch.uint8
    assert triton._bits(3) == 3
