"""Access patterns of loop nests."""

from __future__ import annotations

import torch

from nbcompile.ir.expr import Gather, Load
from nbcompile.ir.index import loop_variable, reduction_variable
from nbcompile.ir.kernel import (
    MAX_SHORT_ROW,
    Accumulate,
    Kernel,
    Loop,
    Nest,
    access,
    has_small_stride,
    is_short_row,
    is_transposed_access,
)

i0, i1, r0 = loop_variable(0), loop_variable(1), reduction_variable(0)
X = Load("x", (i0,), torch.float32)


def test_an_access_is_named_by_its_stride():
    """Along the vectorised loop, an access is one load, one broadcast, or W loads."""
    assert access(64 * i0 + i1, (), i1) == "contiguous"
    assert access(64 * i0 + i1, (), i0) == "strided"
    assert access(64 * i0, (), i1) == "broadcast"
    assert access(i1 // 2, (), i1) == "gather"


def test_an_index_from_memory_is_a_gather():
    """A loaded index is a gather, whatever its stride."""
    symbol = loop_variable(7)
    gather = Gather(symbol, X, i0, wraps=True)
    assert access(symbol + i1, (gather,), i1) == "gather"


def test_small_strides_are_shuffled_out_of_vectors():
    """Strides up to four are loaded as vectors and shuffled, unless the other loop is contiguous."""
    assert has_small_stride(2 * i0 + 64 * i1, i0, i1)
    assert not has_small_stride(8 * i0 + 64 * i1, i0, i1)
    assert not has_small_stride(2 * i0 + i1, i0, i1)


def test_transposed_accesses():
    """A transposed access is contiguous along rows, and strided along lanes."""
    assert is_transposed_access(i1 + 64 * i0, lanes=i0, rows=i1)
    assert not is_transposed_access(i0 + 64 * i1, lanes=i0, rows=i1)
    assert not is_transposed_access(i1, lanes=i0, rows=i1)  # a broadcast along lanes


def test_rows_of_unknown_length_may_be_packed():
    """A row of symbolic length counts as short; a constant length is compared with MAX_SHORT_ROW."""
    assert is_short_row((Loop(r0, i0),))
    assert not is_short_row((Loop(r0, MAX_SHORT_ROW + 1),))


def test_a_matrix_product_is_found_among_the_nests():
    """A matrix product is found among the loop nests; a sum is not one, though it is a reduction, too."""

    def kernel(kind):
        return Kernel("k", torch.device("cpu"), (), (Nest((Loop(r0, 8),), (Accumulate("a", kind, X),)),))

    assert kernel("dot").product.name == "a" and kernel("sum").product is None
