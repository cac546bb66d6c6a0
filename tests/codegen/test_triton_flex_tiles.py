"""Parts of the kernels of flex attention, and the text of the forward kernels."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.codegen import triton_flex
from nbcompile.codegen.triton_flex_tiles import BlockList, BlockMask, Flex, FlexSizes, power_of_two, tile_of


def flex(dtype=torch.float16, **sizes):
    """A flex attention with one list of blocks, and default sizes."""
    given = {
        "batch": 2, "heads": 4, "rows": 64, "keys": 300, "width": 24, "value_width": 40, "batch_of_keys": 2,
        "heads_of_keys": 2, **sizes,
    }  # fmt: skip
    given.setdefault("hints", (given["batch"], given["rows"], given["keys"]))
    numbers = [torch.ones((), dtype=torch.int32) for _ in range(4)]
    score = make_fx(lambda s, b, h, i, j: s + h)(torch.ones(()), *numbers)
    mask = make_fx(lambda b, h, i, j: i >= j)(*numbers)
    blocks = BlockList("counts", "positions", (1, 1, 1), (1, 1, 1), (1, 1, 1, 3), (3, 3, 3, 1))
    strides = dict.fromkeys(
        ("query", "key", "value", "out", "grad", "grad_query", "grad_key", "grad_value"), (4096, 1024, 64, 1)
    )
    return Flex(FlexSizes(**given), strides, BlockMask(128, 128, (blocks,)), 0.25, score, mask, (), (), dtype)


def test_widths_are_powers_of_two():
    """Widths are padded to powers of two, and to at least 16, the minimum of matrix units."""
    assert flex().sizes.padded == (32, 64)
    assert flex(width=3).sizes.padded == (16, 64)
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


def test_few_rows_have_a_flat_tile():
    """Up to 16 rows, as in decoding, have a tile of 16 rows."""
    assert (tile_of(flex(), 16).rows, tile_of(flex(), 17).rows) == (16, 64)
    assert tile_of(flex(torch.float32), 64).columns == 32


def test_programs_share_the_keys_of_few_rows():
    """One tile has the rows of both heads that share keys; each split has a part of the listed tiles."""
    attention = flex(rows=5)
    assert triton_flex.grid(attention, 0) == 2 * 4
    assert triton_flex.grid(attention, 3) == 3 * 2 * 2
    text = triton_flex.emit(attention, "kernel", 3)
    assert "for step in range(split * share, tl.minimum(count, split * share + share)):" in text
    assert "h = of_head * 2 + line // 5" in text
    assert "tl.store(parts + " in text
    compile(text, "kernel", "exec")
    compile(triton_flex.emit_combination(attention, "kernel", 3), "kernel", "exec")


def test_a_mask_is_asked_in_listed_blocks():
    """The mask is evaluated in listed blocks, and not in full blocks."""
    text = triton_flex.emit(flex(), "kernel")
    assert text.count("allowed = ") == 1
    compile(text, "kernel", "exec")
