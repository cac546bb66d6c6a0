"""Text of the kernels of flex attention's gradients; tests/gpu/standin/test_flex_attention.py checks their values."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.codegen.triton_flex_backward import FlexBackward, emit_of_keys, emit_of_query, parameters_of_keys
from tests.codegen.test_triton_flex_tiles import flex


def backward(captured=(), **sizes):
    """The gradients of an attention with halved scores."""
    numbers = [torch.ones((), dtype=torch.int32) for _ in range(4)]
    joint = make_fx(lambda s, b, h, i, j, g: (g * 0.5, None))(torch.ones(()), *numbers, torch.ones(()))
    return FlexBackward(flex(**sizes), joint, captured)


def test_each_tile_of_rows_and_each_tile_of_keys_has_a_program():
    """The query kernel has a program per tile of rows and head; the key kernel, per tile of keys and shared head."""
    found = backward()
    assert (found.tile.rows, found.tile.columns) == (64, 64)
    assert (found.grid_of_query, found.grid_of_keys) == (8, 5 * 4)


def test_both_kernels_compute_scores_again():
    """Both kernels recompute the scores; the key kernel has a loop over the heads that share keys."""
    for text in (emit_of_query(backward(), "kernel"), emit_of_keys(backward(), "kernel")):
        compile(text, "kernel", "exec")
        assert "weights = tl.exp(scores - base)" in text
    assert "for shared in range(0, 2):" in text


def test_tensors_with_gradients_are_arguments():
    """The gradients of captured tensors are arguments after those of keys and values."""
    assert parameters_of_keys(backward((0, 2)))[6:10] == ("grad_key", "grad_value", "gradient_of0", "gradient_of2")


def test_wide_heads_have_eight_warps():
    """Wide heads have eight warps, because registers would spill with four."""
    assert backward(width=80).tile.warps == 8
