"""Kernels that are written as text, in torch's table."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile import torch_internals
from nbcompile.gpu.written_kernels import kernel_launch
from nbcompile.ir.kernel import ProductTile

SOURCE = "import triton\n\n@triton.jit\ndef nothing(x):\n    pass\n"


def test_one_text_is_one_kernel():
    """With its options, and the names of its arguments."""
    one, other = (kernel_launch(SOURCE, "nothing", 3, ("x",), ProductTile(0, 0, 0, warps, 1)) for warps in (4, 8))
    table = torch_internals.triton_kernel_wrap().kernel_side_table
    assert table.get_kernel(one.kernel).__name__ == "nothing"
    assert one.kernel == other.kernel
    assert table.get_constant_args(other.options) == {"num_warps": 8, "num_stages": 1}
    assert (one.programs, one.parameters) == (3, ("x",))
