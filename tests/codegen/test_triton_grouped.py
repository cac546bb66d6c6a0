"""Text and grid of the kernels of grouped products; their numbers: tests/gpu/test_grouped_products.py."""

from __future__ import annotations

import pytest

from nbcompile.codegen.triton_grouped import COLUMNS, ROWS, SUM, GroupedProduct, emit
from nbcompile.ir.kernel import ProductTile

TILE = ProductTile(64, 32, 32, 4, 3)


@pytest.mark.parametrize(("divided", "programs"), [(ROWS, (2 + 3) * 4), (COLUMNS, 2 * (4 + 3)), (SUM, 2 * 4 * 3)])
def test_there_are_programs_for_each_tile_that_may_exist(divided, programs):
    """One more for each group than all rows have; every group has its own result where the sum is divided."""
    product = GroupedProduct(divided, 3, 100, 128, 48, (0, 48, 1), (6144, 128, 1), (0, 128, 1))
    assert product.programs(TILE) == programs
    compile(emit(product, TILE, "kernel"), "kernel", "exec")
