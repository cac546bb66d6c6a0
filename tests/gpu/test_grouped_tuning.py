"""Candidates of a grouped product as kernels to be measured."""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_grouped import PARAMETERS, ROWS, SUM, GroupedProduct, emit
from nbcompile.gpu import grouped_tuning
from nbcompile.ir.kernel import ProductTile

CPU = torch.device("cpu")


def product(divided: str, size: int) -> GroupedProduct:
    sizes = 3, size, 64, size
    return GroupedProduct(divided, *sizes, (0, 32, 1), (2048, 64, 1), (0, 64, 1), hints=sizes)


def test_groups_are_equally_long():
    """The groups of a measurement have about equal lengths, multiples of 16 bytes, and cover all rows."""
    assert grouped_tuning._offsets(product(ROWS, 100), CPU).tolist() == [32, 64, 100]
    assert grouped_tuning._offsets(product(SUM, 48), CPU).tolist() == [16, 32, 48]


def test_a_candidate_is_a_kernel_as_those_of_a_schedule():
    """A candidate has the dtypes of its arguments and the grid of its tile."""
    given = product(ROWS, 100)
    values = [torch.empty(1, dtype=dtype) for dtype in (torch.bfloat16, torch.bfloat16, torch.int32, torch.float32)]
    tile = ProductTile(32, 32, 32, 4, 3)
    kernel = grouped_tuning._kernel(
        lambda tile, name: emit(given, tile, name), tile, "triton_grouped_0", PARAMETERS, values, given
    )
    assert "def triton_grouped_0(left, right, offsets, out):" in kernel.source
    assert kernel.parameters == PARAMETERS
    assert kernel.types == ("*bf16", "*bf16", "*i32", "*fp32")
    assert kernel.grid == str(given.programs(tile))
    compile(kernel.source, "kernel", "exec")
