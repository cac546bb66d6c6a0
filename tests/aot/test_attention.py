"""Attention that is written as separate steps becomes ATen's fused operator where both compute exactly the same."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import nbcompile
from nbcompile.aot import attention

FUSED = "nbcompile.attention"
NOTHING = -math.inf


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    """The pattern is replaced at any size, because these programs are small."""
    monkeypatch.setattr(attention, "SMALL_SCORES", 0)


def compiled(function, *arguments):
    """The result, and the fused operators and notes in the record."""
    frame_recorder = nbcompile.api.new_recorder("attention")
    with frame_recorder.listening():
        result = nbcompile.compile(function)(*arguments)
    graphs = [frame.compiled_graph for frame in frame_recorder.record().frames if frame.compiled_graph is not None]
    nbcompile.reset()
    targets = [str(node.target) for graph in graphs for each in graph.graphs for node in each.nodes]
    return result, [each for each in targets if FUSED in each], [note for graph in graphs for note in graph.notes]


def heads(*size, dtype=torch.float32):
    """Query, keys and values of one shape."""
    torch.manual_seed(0)
    return torch.randn(3, *size, dtype=dtype).unbind()


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / 4.0, -1) @ v


def scaled_before(q, k, v):
    return F.softmax((q * 0.25) @ k.mT, dim=-1) @ v


def masked(q, k, v):
    keep = torch.ones(q.shape[-2], k.shape[-2]).tril()
    scores = (q @ k.transpose(-2, -1) * 0.25).masked_fill(keep == 0, NOTHING)
    return scores.softmax(-1) @ v


def kept(q, k, v):
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = torch.where(keep, q @ k.transpose(-2, -1), torch.full([], NOTHING))
    return scores.softmax(-1) @ v


def biased(q, k, v):
    distance = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    return torch.softmax(q @ k.transpose(-2, -1) / 3 + distance / 8, -1) @ v


def biased_and_masked(q, k, v):
    bias = torch.arange(k.shape[-2]) / 10
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1]) + bias
    scores = scores.masked_fill(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1), NOTHING)
    return torch.matmul(torch.softmax(scores, -1), v)


def without_keys(q, k, v):
    mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    mask[1] = True
    mask[2, :3] = True
    return (q @ k.transpose(-2, -1)).masked_fill(mask, NOTHING).softmax(-1) @ v


def without_keys_finite(q, k, v):
    mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    mask[1] = True
    mask[2, :3] = True
    lowest = torch.finfo(q.dtype).min
    return (q @ k.transpose(-2, -1)).masked_fill(mask, lowest).softmax(-1) @ v


def bias_without_keys(q, k, v):
    bias = torch.zeros(k.shape[-2], dtype=q.dtype)
    bias[::2] = NOTHING
    rows = torch.zeros(q.shape[-2], 1, dtype=q.dtype)
    rows[2] = NOTHING
    return (q @ k.transpose(-2, -1) + bias + rows).softmax(-1) @ v


def scaled_after_the_mask(q, k, v):
    keep = torch.ones(q.shape[-2], k.shape[-2]).tril()
    return ((q @ k.transpose(-2, -1)).masked_fill(keep == 0, NOTHING) / 4.0).softmax(-1) @ v


SPELLINGS = (
    scaled_after_the_mask, plain, scaled_before, masked, kept, biased, biased_and_masked, without_keys, without_keys_finite, bias_without_keys,
)  # fmt: skip


@pytest.mark.parametrize("size", [(2, 3, 8, 16), (4, 8, 16), (1, 1, 5, 7)], ids=str)
@pytest.mark.parametrize("function", SPELLINGS, ids=lambda each: each.__name__)
def test_each_spelling_is_fused_and_gives_what_eager_gives(function, size):
    """Each usual spelling of scale, mask and bias is fused; a row without keys is NaN or a mean, as in eager mode."""
    q, k, v = heads(*size)
    result, fused, notes = compiled(function, q, k, v)
    torch.testing.assert_close(result, function(q, k, v), equal_nan=True)
    assert len(fused) == 1
    assert any("attention pattern" in note for note in notes)


def mask_then_bias(q, k, v):
    scores = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(q.shape[-2], k.shape[-2]).triu(1) == 1, NOTHING)
    return (scores + torch.arange(k.shape[-2]) / 10).softmax(-1) @ v


@pytest.mark.parametrize("into", ["q", "k"])
@pytest.mark.parametrize("number", [math.inf, NOTHING, math.nan, 1e30], ids=str)
@pytest.mark.parametrize("function", [*SPELLINGS, mask_then_bias], ids=lambda each: each.__name__)
def test_what_is_no_number_among_queries_and_keys(function, number, into):
    """Infinities and NaNs in queries and keys, masked ones included, give the result of the separate steps."""
    q, k, v = heads(2, 2, 8, 16)
    q, k = q.abs(), k.abs()
    if into != "k":
        q[0, 1, 3, 2] = number
    if into != "q":
        k[1, 0, 6, 5] = k[0, 1, 0, 1] = number
    result, fused, _ = compiled(function, q, k, v)
    torch.testing.assert_close(result, function(q, k, v), equal_nan=True)
    assert len(fused) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_other_types_are_fused(dtype):
    """Attention in float64, bfloat16 and float16 is fused, too."""
    q, k, v = heads(2, 2, 8, 16, dtype=dtype)
    result, fused, _ = compiled(masked, q, k, v)
    # The steps round the scores to the type of the tensors, the kernel does not.
    torch.testing.assert_close(result, masked(q, k, v), rtol=1e-3, atol=0 if dtype == torch.float64 else 2e-2)
    assert len(fused) == 1


def test_projections_and_heads():
    """The transposes around attention in a whole layer are not copied, and the result has eager's strides."""

    def layer(x, *weights):
        q, k, v = ((x @ each).view(2, 9, 4, 8).transpose(1, 2) for each in weights)
        weighted = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), -1) @ v
        return weighted.transpose(1, 2).reshape(2, 9, 32), weighted

    x, *weights = torch.randn(2, 9, 32), *torch.randn(3, 32, 32).unbind()
    result, fused, _ = compiled(layer, x, *weights)
    torch.testing.assert_close(result, layer(x, *weights), check_stride=True, rtol=1e-4, atol=1e-4)
    assert len(fused) == 1


def test_keys_kept_transposed():
    """Keys that are stored transposed are transposed back for the kernel."""
    q, k, v = heads(2, 2, 6, 8)
    turned = k.transpose(-2, -1).contiguous()

    def function(q, turned, v):
        return torch.softmax(q @ turned, -1) @ v

    result, fused, _ = compiled(function, q, turned, v)
    torch.testing.assert_close(result, function(q, turned, v))
    assert len(fused) == 1


def weights_returned(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1), -1)
    return weights @ v, weights


def low_bias_is_no_mask(q, k, v):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    return (q @ k.transpose(-2, -1)).masked_fill(mask, -10.0).softmax(-1) @ v


def scaled_down_after_the_mask(q, k, v):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    return ((q @ k.transpose(-2, -1)).masked_fill(mask, -1e9) * 1e-9).softmax(-1) @ v


def turned_after_the_mask(q, k, v):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    return ((q @ k.transpose(-2, -1)).masked_fill(mask, -1e9) / -1.0).softmax(-1) @ v


def scaled_after_the_bias(q, k, v):
    return ((q @ k.transpose(-2, -1) + torch.arange(k.shape[-2])) * 0.5).softmax(-1) @ v


def other_dimension(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -2) @ v


def other_width(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v[..., :4]


def grouped_otherwise(q, k, v):
    scores = torch.bmm(q.reshape(4, 8, 16), k.reshape(4, 8, 16).mT).view(1, 4, 8, 8)
    weights = torch.softmax(scores.masked_fill(torch.arange(4).view(4, 1, 1) == torch.arange(8), NOTHING), -1)
    return torch.bmm(weights.view(4, 8, 8), v.reshape(4, 8, 16)).view(2, 2, 8, 16)


def divided_by_zero(q, k, v):
    return (q @ k.transpose(-2, -1) / 0).softmax(-1) @ v


def test_sizes_may_be_symbols():
    """Attention over a sequence of symbolic length is fused, too."""
    call = nbcompile.compile(masked, dynamic=True)
    for length in (5, 9, 17):
        q, k, v = heads(2, 2, length, 16)
        torch.testing.assert_close(call(q, k, v), masked(q, k, v))
    nbcompile.reset()


def test_gradients_are_those_of_the_steps():
    """A graph with a backward pass is not fused."""
    given = [each.requires_grad_() for each in heads(2, 2, 8, 16)]
    result, fused, _ = compiled(masked, *given)
    expected = torch.autograd.grad(masked(*given).sum(), given)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), given), expected)
    assert not fused


@pytest.mark.parametrize(("size", "fused"), [((2, 3, 5, 16), 0), ((4, 16, 16), 0), ((2, 4, 32, 16), 1)])
def test_few_scores_stay_separate_steps(monkeypatch, size, fused):
    """Attention whose scores fit into the L1 cache is not fused: two products and a kernel are faster there."""
    monkeypatch.setattr(attention, "SMALL_SCORES", 4096)
    q, k, v = heads(*size)
    result, found, _ = compiled(plain, q, k, v)
    torch.testing.assert_close(result, plain(q, k, v))
    assert len(found) == fused
