"""Text and grid of the kernels of grouped products; tests/gpu/test_grouped_products.py checks their values."""

from __future__ import annotations

import pytest

from nbcompile.codegen.triton_grouped import COLUMNS, ROWS, SUM, GroupedProduct, emit
from nbcompile.ir.kernel import ProductTile

TILE = ProductTile(64, 32, 32, 4, 3)


@pytest.mark.parametrize(("divided", "programs"), [(ROWS, (2 + 3) * 4), (COLUMNS, 2 * (4 + 3)), (SUM, 2 * 4 * 3)])
def test_there_are_programs_for_each_tile_that_may_exist(divided, programs):
    """Each group adds at most one partial tile to those of all rows; if the sum is divided, a group has all tiles."""
    product = GroupedProduct(divided, 3, 100, 128, 48, (0, 48, 1), (6144, 128, 1), (0, 128, 1))
    assert product.programs(TILE) == programs
    compile(emit(product, TILE, "kernel"), "kernel", "exec")


@pytest.mark.parametrize(("tokens", "is_wide"), [(1000, False), (2**20, True), ("s0", True)])
def test_offsets_of_many_tokens_have_64_bits(tokens, is_wide):
    """Offsets of many tokens have 64 bits, as in the gradient of experts' weights."""
    #   x.t() @ y: steps of the sum are 4096 elements apart on the left side, which are 2**32 for 2**20 tokens
    product = GroupedProduct(SUM, 8, 4096, 512, tokens, (0, 1, 4096), (0, 512, 1), (4096 * 512, 512, 1))
    assert ("r[None, :].to(tl.int64) * (4096)" in emit(product, TILE, "kernel")) is is_wide
    transposed = GroupedProduct(SUM, 8, 64, 4096, tokens, (0, 1, 64), (0, 1, tokens), (64 * 4096, 4096, 1))
    # A stride that is an argument has 64 bits.
    text = emit(transposed, TILE, "kernel")
    assert ("column.to(tl.int64) *" in text) is (is_wide and tokens != "s0")
