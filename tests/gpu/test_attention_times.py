"""Attention in separate steps for a target: one operator if the GPU model predicts that it is faster."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.gpu.attention_times import AttentionShape, choose
from nbcompile.gpu.chip import CHIPS


def by_hand(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) * 0.125
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def heads(*size):
    return torch.randn(size).div(4).bfloat16() if size[-1] > 256 else torch.randn(size)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("masked", [False, True])
def test_one_operator_gives_eagers_numbers(masked, chip):
    """The scores are not written to memory; the record has the predicted times of both forms."""
    q, k, v = (heads(2, 3, 40, 16) for _ in range(3))
    mask = (torch.ones(40, 40).triu(1).bool(),) if masked else ()
    found = nbcompile.explain(by_hand, options={"target": chip})(q, k, v, *mask)
    torch.testing.assert_close(found.result, by_hand(q, k, v, *mask))
    assert "nbcompile.attention.default" in [kernel.name for kernel in found.kernels]
    (note,) = found.record.frames[0].compiled_graph.notes
    assert "was replaced by nbcompile.attention.default: predicted" in note
    assert "us as two products and a kernel between them" in note


def test_heads_that_no_fused_kernel_takes_are_kept():
    """Heads without a fused kernel are two products and a kernel; the record has the reason."""
    q, k, v = (heads(1, 1, 8, 320) for _ in range(3))
    found = nbcompile.explain(by_hand, options={"target": "sm_90"})(q, k, v)
    torch.testing.assert_close(found.result, by_hand(q, k, v), rtol=2e-2, atol=2e-2)
    (note,) = found.record.frames[0].compiled_graph.notes
    assert note.endswith("was kept: no fused kernel has heads of more than 256 columns")
    assert "aten.bmm.default" in [kernel.name for kernel in found.kernels]


def test_rows_that_only_numbers_decide():
    """With unbacked row counts the choice uses a hint, and the results are eager's."""

    def function(q, k, v, n):
        rows = n.item()
        torch._check(rows > 1)
        torch._check(rows < 40)
        return by_hand(q[:, :, :rows], k, v)

    q, k, v = (heads(2, 3, 40, 16) for _ in range(3))
    found = nbcompile.explain(function, options={"target": "sm_90"}, fullgraph=True)(q, k, v, torch.tensor(24))
    torch.testing.assert_close(found.result, function(q, k, v, torch.tensor(24)))
    (graph,) = (frame.compiled_graph for frame in found.record.frames if frame.compiled_graph is not None)
    assert "nbcompile.attention.default: predicted" in graph.notes[0]


def test_the_models_times():
    """For long rows the scores' traffic decides; few multiprocessors bound the speed of one kernel."""
    chip = CHIPS["sm_90"]
    long = choose(AttentionShape(64, 4096, 4096, 64, 2, "narrow"), chip)
    assert 3 < long.separate / long.fused < 10
    few, many = (choose(AttentionShape(heads, 128, 4096, 128, 2, "narrow"), chip).fused for heads in (4, 8))
    assert few == pytest.approx(many, rel=0.05)
