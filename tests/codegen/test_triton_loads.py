"""Loads of Triton kernels are hoisted, and loads that are uniform along a dimension of a block are shared."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.codegen.machine_model import EARLY_REGISTERS
from tests.support.lowered import check, programs


def source(function, *inputs) -> str:
    """The text of the only kernel; its results equal eager's in Triton's interpreter."""
    check(function, *inputs, cpp=False)
    (kernel,) = generator.emit(programs(function, *inputs)[1]).kernels
    return kernel.source


def test_loads_come_before_the_first_store():
    """Loads come before the first store: neither Triton nor ptxas could hoist them over it."""
    text = source(lambda x, y, z: (x + y, (x + y) * z), *(torch.randn(3000) for _ in range(3)))
    assert text.count("tl.load") == 3
    assert text.rindex("tl.load") < text.index("tl.store")


def test_a_masked_load_comes_early_too():
    """Both parts of a concatenation are loaded before the first use; their mask is computed once."""
    text = source(lambda x, y, z: z.sin() * torch.cat([x, y]), torch.randn(100), torch.randn(50), torch.randn(150))
    assert text.rindex("tl.load") < text.index("tl.sin")
    assert text.count(" < (tl.full([1], 100") == 1


def test_registers_limit_what_is_loaded_early():
    """The registers limit how many of twenty loads are hoisted; the others come at their first use."""
    text = source(lambda *xs: sum(x.sin() for x in xs[1:]) + xs[0].cos(), *(torch.randn(1 << 19) for _ in range(20)))
    early = text[: text.index("tl.sin")].count("tl.load")
    assert early * 8 <= EARLY_REGISTERS < (early + 3) * 8
    assert text.count("tl.load") == 20


@pytest.mark.parametrize("shape", [(64, 70), (50, 41)], ids=str)
def test_a_tile_loads_what_varies_along_one_side_once(shape):
    """A value per row of a tile is loaded in the shape of a column, with the mask of the rows."""
    rows, columns = shape
    text = source(lambda x, m: (x * m[:, None]).sum(0), torch.randn(shape), torch.randn(rows))
    mask = "" if rows == 64 else ", (inner < 50), 0.0"
    assert f"tl.load(p1 + (i1){mask})" in text or f"tl.load(p1 + (i0){mask})" in text


def test_an_update_at_one_place_by_all_elements():
    """If all elements of a block update one address, each value is added."""
    check(
        lambda x, i, v: x.index_put((i,), v.sum(0), accumulate=True),
        torch.zeros(4), torch.tensor([2]), torch.randn(300, 1),
        cpp=False,
    )  # fmt: skip
