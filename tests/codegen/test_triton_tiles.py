"""Tiles of pointwise kernels whose accesses are contiguous along two loops."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.codegen import triton_tiles
from tests.support.lowered import programs


def found(function, *inputs):
    """The sizes of the tile's loops, along the store and along the load."""
    _, planned = programs(function, *inputs)
    (kernel,) = planned.kernels()
    tile = triton_tiles.find(kernel)
    return tile and tuple(int(loop.size) for loop in tile)


PROGRAMS = {
    "transpose": (lambda x, y: x.t() + y, (torch.randn(40, 70), torch.randn(70, 40)), (40, 70)),
    "permute": (lambda x: x.permute(0, 2, 1).contiguous() * 2, (torch.randn(3, 33, 20),), (33, 20)),
    "a bias": (lambda x, b: x.t() + b, (torch.randn(64, 96), torch.randn(64)), (64, 96)),
    "no other direction": (lambda x, b: x + b, (torch.randn(40, 70), torch.randn(70)), None),
    "a number for each row": (lambda x, b: x + b[:, None], (torch.randn(40, 70), torch.randn(40)), None),
    "too narrow": (lambda x: x.t() * 2, (torch.randn(4, 70),), None),
    "a reduction": (lambda x: x.t().sum(1), (torch.randn(40, 70),), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_loops_are_a_tile(name):
    """Two long loops are a tile if each is contiguous for some access."""
    function, inputs, expected = PROGRAMS[name]
    contiguous = lambda *given: function(*given).contiguous()  # noqa: E731
    assert found(contiguous, *inputs) == expected


@pytest.mark.parametrize("name", ["transpose", "permute", "a bias"])
def test_a_tile_moves_no_more_than_it_must(name):
    """A simulated tile gives eager's result, and uses whole sectors except at the edges."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    function, inputs, _ = PROGRAMS[name]
    expected = function(*inputs).contiguous()
    explained = nbcompile.explain(lambda *given: function(*given).contiguous(), options={"target": "sm_90"})(*inputs)
    assert torch.equal(explained.result, expected)
    (kernel,) = explained.kernels
    assert "[None, :]" in kernel.source
    assert kernel.gpu.coalescing > 0.6
