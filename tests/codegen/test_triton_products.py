"""Text of matrix products in Triton: masks of partial tiles, the order of programs, the width of indices."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.ir.expr import Constant
from nbcompile.ir.kernel import Nest, ProductTile
from nbcompile.scheduling import schedule
from tests.lowering.test_products import lowered


def text(function, *inputs, tile=ProductTile(32, 32, 32), **how) -> str:
    """The text of the only kernel, with a tile."""
    planned = schedule(lowered(function, *inputs, **how))
    (kernel,) = planned.kernels()
    return triton.emit_kernel(replace(kernel, tile=tile), planned).source


def big(*size: int) -> torch.Tensor:
    """A large tensor on the meta device, which needs no memory."""
    return torch.empty(size, device="meta")


def test_no_mask_where_tiles_are_full():
    """Loads have no mask if rows, columns and steps are multiples of the tile's."""
    full = text(torch.mm, torch.randn(64, 96), torch.randn(96, 32))
    assert "<" not in full
    assert text(torch.mm, torch.randn(65, 96), torch.randn(96, 32)).count("(row < 65)") == 2  # a factor, and the result
    assert "(i2 < 97)" in text(torch.mm, torch.randn(64, 97), torch.randn(97, 32))


def test_programs_that_run_at_once_share_what_they_load():
    """Programs that run concurrently share loads: some blocks of rows at a time for each block of columns."""
    many = text(torch.mm, torch.randn(1024, 32), torch.randn(32, 1024))
    assert "height = tl.minimum(32 - first, 8)" in many
    assert "height" not in text(torch.mm, torch.randn(64, 32), torch.randn(32, 1024))


def test_an_operand_that_is_computed_is_zero_beyond_the_end():
    """A computed operand is zero after the end: exp of a masked load would be 1."""
    assert "tl.where((i2 < 40), " in text(lambda x, w: torch.mm(x.exp(), w), torch.randn(32, 40), torch.randn(40, 32))
    assert "tl.where" not in text(torch.mm, torch.randn(32, 40), torch.randn(40, 32))


def test_narrow_factors_are_not_widened():
    """Narrow factors are not widened, also if eager multiplies in float32, because the products are exact."""
    x, w = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    for function in (torch.mm, lambda x, w: torch.mm(x.float(), w.float())):
        assert ".to(tl.float32)" not in text(function, x, w)


def test_indices_of_64_bits_where_32_do_not_suffice():
    """The program's index and the steps of the sum have 64 bits if 32 do not suffice."""
    wide = text(torch.mm, big(2**16, 2**15 + 32), big(2**15 + 32, 64))
    assert wide.count(".to(tl.int64)") == 3
    assert ".to(tl.int64)" not in text(torch.mm, big(2**14, 2**14), big(2**14, 64))


def test_dynamic_sizes_are_arguments():
    """Symbolic sizes are arguments of the kernel and of its grid."""
    dynamic = text(torch.mm, torch.randn(33, 40), torch.randn(40, 50), dynamic=True)
    assert "// 32)" in dynamic.partition("_grid(")[2]


def test_a_product_that_has_been_simplified_is_rejected():
    """A product whose factor became a constant is rejected, and the reason names the factor."""
    planned = schedule(lowered(torch.mm, torch.randn(33, 40), torch.randn(40, 50)))
    (kernel,) = planned.kernels()
    body = tuple(
        Nest(part.loops, tuple(replace(inner, value=Constant(1.0, torch.float32)) for inner in part.body))
        if isinstance(part, Nest)
        else part
        for part in kernel.body
    )
    with pytest.raises(NoTriton, match="simplified"):
        triton.emit_kernel(replace(kernel, body=body), planned)
