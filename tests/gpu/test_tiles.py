"""The elements that each program accesses, recorded by the simulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import numpy as np

import nbcompile
from nbcompile.gpu import tiles


def grids(function, *inputs):
    """The grid of programs of each access in the last kernel."""
    nbcompile.reset()
    kernel = nbcompile.explain(function, options={"target": "sm_90"})(*inputs).kernels[-1]
    found = [(each.access, np.array(each.programs).reshape(each.rows, each.columns)) for each in kernel.gpu.tiles]
    return [grid for access, grid in found if access == "read"], [grid for access, grid in found if access == "written"]


def test_a_program_reads_its_row_and_all_read_the_weight():
    """In a layer norm of 8 rows, each program reads one row, and all read the weight."""
    read, (written,) = grids(lambda x, w: torch.layer_norm(x, (64,), w), torch.randn(8, 64), torch.randn(64))
    rows, weight = sorted(read, key=len, reverse=True)
    expected = np.repeat(np.arange(8)[:, None], 32, 1)
    assert (rows == expected).all()
    assert (written == expected).all()
    assert (weight == tiles.SEVERAL).all()


def test_a_transposed_tensor_is_read_in_tiles():
    """Each sampled program reads one 32 x 32 tile and writes another, of 2 by 4 tiles."""
    (read,), (written,) = grids(lambda x: x.t().contiguous(), torch.randn(64, 128))
    assert (read[0] == np.repeat(read[0, ::8], 8)).all()
    assert len(np.unique(read)) == len(np.unique(written)) == 8
    for program in range(8):
        assert (read == program).sum() * 8 == read.size
        assert (written == program).sum() * 8 == written.size


def test_elements_without_an_access():
    """Elements between strided accesses belong to no program."""
    read, _ = grids(lambda x: x[::2] * 3, torch.randn(64))
    assert read[0].tolist() == [[0, -1] * 31 + [0, -1]] or read[0].tolist() == [[0, -1] * 31 + [0]]


def test_a_tensor_is_drawn_as_it_lies_in_memory():
    """The rows of the drawing are contiguous memory, whatever the tensor's shape is."""
    transposed = tiles.watch(torch.zeros(5, 7).t(), "x")
    assert (transposed.height, transposed.width) == (5, 7)
    spread = tiles.watch(torch.zeros(5, 7)[:, ::3], "x")
    assert (spread.height, spread.width) == (1, 35)
    assert tiles.watch(torch.zeros(0, 7), "x") is None


def test_a_tensor_that_covers_too_many_elements_is_not_watched():
    """A view with a stride of 1 Gi elements is not recorded, because each element takes 8 bytes."""
    far = torch.empty(4, dtype=torch.int8, device="meta").as_strided((3,), (1 << 30,))
    assert tiles.watch(far, "far") is None
    assert tiles.watch(torch.zeros(4, 8), "near") is not None
