"""Flex attention as one kernel for a GPU: eager's values in the simulator, or the reason for a fallback."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import nbcompile
from nbcompile.gpu import flex_attention as nodes
from tests.lowering.attention_functions import by_case, causal, nothing_for_some, relative, soft_cap, window

NAME = "triton_flex_attention"
OPTIONS = {"target": "sm_90", "simulation_seconds": 300.0}


@pytest.fixture(autouse=True)
def forgetful():
    """A reset between tests: sizes of one test must not become symbolic in another; torch's warning is ignored."""
    nbcompile.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def tensors(dtype=torch.float16, *, batch=1, heads=2, shared=2, rows=64, keys=64, width=16, value_width=16):
    """Query, keys and values."""
    torch.manual_seed(0)
    sizes = (batch, heads, rows, width), (batch, shared, keys, width), (batch, shared, keys, value_width)
    return [torch.randn(size).to(dtype) for size in sizes]


def explained(function, *inputs, kernel=True, splits=False, options=OPTIONS):
    """Compile and run; assert eager's results and strides, and one kernel without scores in memory."""
    found = nbcompile.explain(function, options=options)(*inputs)
    expected = function(*inputs)
    results = [each if isinstance(each, tuple) else (each,) for each in (found.result, expected)]
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if inputs[0].dtype == torch.float32 else {"rtol": 2e-2, "atol": 1e-2}
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, **tolerance)
        assert mine.stride() == theirs.stride()
    names = [kernel.name for kernel in found.kernels if kernel.name.startswith(NAME)]
    assert names == ([] if not kernel else [NAME] if not splits else [f"{NAME}_split", f"{NAME}_combine"])
    return found


PRECISE = torch.full((64,), 1e-60, dtype=torch.float64)


@pytest.mark.parametrize(("score", "mask", "keys"), [
    (None, None, 64), (None, causal, 64), (relative, None, 64), (relative, window, 70), (soft_cap, window, 64),
    (by_case, nothing_for_some, 40), (None, nothing_for_some, 64),
])  # fmt: skip
def test_scores_and_masks_in_one_kernel(score, mask, keys):
    """Functions of score, batch, head, row and key are one kernel; a row without a key is 0, and its logsumexp -inf."""
    q, k, v = tensors(keys=keys)
    blocks = create_block_mask(mask, None, None, 64, keys, device="cpu") if mask else None
    explained(
        lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks, return_lse=True),
        q,
        k,
        v,
        splits=keys > 64,
    )


@pytest.mark.parametrize("sizes", [
    {"dtype": torch.bfloat16}, {"dtype": torch.float32, "width": 20}, {"heads": 4, "shared": 2},
    {"rows": 3, "keys": 100}, {"rows": 70, "keys": 33, "width": 24, "value_width": 40}, {"batch": 2, "width": 80},
], ids=str)  # fmt: skip
def test_types_and_sizes(sizes):
    """Shared heads, few rows (decoding), sizes that are no multiple of a tile, and another width of the values work."""
    q, k, v = tensors(**sizes)
    gqa = q.size(1) != k.size(1)
    # A tile has 32 keys in float32, and for wide heads.
    is_split = k.size(2) > (32 if q.dtype == torch.float32 or q.size(3) > 64 else 64)
    explained(lambda q, k, v: flex_attention(q, k, v, score_mod=relative, enable_gqa=gqa), q, k, v, splits=is_split)


def test_what_the_mask_does_not_list_is_not_read():
    """A causal mask of 4 x 4 blocks lists ten blocks, and the kernel reads only these."""
    q, k, v = tensors(heads=1, shared=1, rows=256, keys=256)
    causal_blocks = create_block_mask(causal, None, None, 256, 256, device="cpu", BLOCK_SIZE=64)
    moved = []
    for blocks in (None, causal_blocks):
        found = explained(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks), q, k, v)  # noqa: B023
        (kernel,) = (each for each in found.kernels if each.name == "triton_flex_attention")
        moved.append(kernel.gpu.moved)
        # The scores would be 256 x 256 numbers.
        assert kernel.gpu.least < 4 * 2 * 256 * 16 + 4 * 256 + 1024
        nbcompile.reset()
    assert moved[1] < 0.75 * moved[0]


def test_tensors_that_the_functions_read():
    """A score function may read biases by head and distance; a mask may read documents by row and key."""
    q, k, v = tensors()
    slopes, documents = torch.randn(2), torch.arange(64) // 24

    def function(q, k, v, slopes):
        def score(s, b, h, i, j):
            return s + slopes[h] * (j - i)

        return flex_attention(q, k, v, score_mod=score, block_mask=blocks)

    def same_document(b, h, i, j):
        return documents[i] == documents[j]

    blocks = create_block_mask(same_document, None, None, 64, 64, device="cpu")
    explained(function, q, k, v, slopes)


def test_numbers_that_are_not_finite():
    """A score function may return minus infinity, NaN and infinity, with eager's result."""
    q, k, v = tensors()
    documents = torch.arange(64) // 24

    def score(s, b, h, i, j):
        found = torch.where(documents[i] == documents[j], s, -float("inf"))
        found = torch.where((i == 3) & (j == 2), float("inf"), found)
        return torch.where(i == 40, float("nan"), found)

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=score).nan_to_num(7.0)

    explained(function, q, k, v)


def test_narrow_integers_are_read():
    """The functions may read tables of 8 and 16 bits, one of them as an index."""
    q, k, v = tensors()
    tables = [torch.randint(0, 2, (64,)).to(dtype) for dtype in (torch.int8, torch.uint8, torch.int16, torch.bool)]
    slopes = torch.tensor([0.5, -0.25])

    def score(s, b, h, i, j):
        signed, unsigned, short, flag = tables
        found = torch.where((signed[i] == unsigned[j]) & flag[j], s, s - 1)
        return found + slopes[short[j].to(torch.int32)]

    explained(lambda q, k, v: flex_attention(q, k, v, score_mod=score), q, k, v)


def blocks_of(rows, keys):
    return create_block_mask(causal, None, None, rows, keys, device="cpu")


def test_strides():
    """Transposed heads and rows, as projections return them, are not copied."""
    q, k, v = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in tensors())
    blocks = blocks_of(64, 64)
    found = explained(lambda q, k, v: flex_attention(q, k, v, scale=0.3, block_mask=blocks), q, k, v)
    assert [each.language for each in found.kernels].count("triton") == 1


def test_operators_beside_it_are_kernels():
    """Operators before and after attention are compiled to kernels."""
    q, k, v = tensors()
    blocks = blocks_of(64, 64)
    found = explained(lambda q, k, v: torch.relu(flex_attention(q * 2, k, v, block_mask=blocks) + 1), q, k, v)
    assert [each.language for each in found.kernels].count("triton") == 3


@pytest.mark.parametrize(("function", "reason"), [
    (lambda s, b, h, i, j: torch.erf(s), "erf"),
    (lambda s, b, h, i, j: s + torch.remainder(s, 2.0), "remainder in floating point"),
    (lambda s, b, h, i, j: s + (s * 100).to(torch.int8), "of torch.int8"),
    (lambda s, b, h, i, j: s + torch.where(PRECISE[j] > 0, 1.0, 2.0), "reads a tensor of torch.float64"),
])  # fmt: skip
def test_what_has_no_code_is_called_with_the_reason(function, reason):
    """Attention with an unsupported function runs through ATen, with the reason."""
    found = explained(lambda q, k, v: flex_attention(q, k, v, score_mod=function), *tensors(), kernel=False)
    assert any(reason in each.reason for each in found.kernels)


@pytest.mark.parametrize("sizes", [
    ((3, 150, 140), (5, 40, 70), (4, 200, 33)),
    # Few rows: the keys are split among programs, and their number is symbolic.
    ((3, 1, 300), (5, 1, 70), (4, 1, 513)),
], ids=["many rows", "few rows"])  # fmt: skip
def test_one_kernel_has_all_sizes(sizes):
    """Batch, rows and keys with symbolic sizes are arguments of the kernel: other sizes do not recompile."""

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=relative)

    def given(batch, rows, keys):
        return tensors(torch.float32, batch=batch, rows=rows, keys=keys)

    found = nbcompile.explain(function, options=OPTIONS, dynamic=True)(*given(*sizes[0]))
    names = [kernel.name for kernel in found.kernels if kernel.name.startswith(NAME)]
    assert names == ([f"{NAME}_split", f"{NAME}_combine"] if sizes[0][1] == 1 else [NAME])
    compiled = nbcompile.compile(function, options=OPTIONS, dynamic=True)
    compiled(*given(*sizes[0]))
    with nbcompile.set_stance("fail_on_recompile"):
        for size in sizes:
            torch.testing.assert_close(compiled(*given(*size)), function(*given(*size)), rtol=1e-5, atol=1e-5)


def test_lists_of_blocks_have_any_length(monkeypatch):
    """The lengths of the block lists are symbolic like the rows; the block size is constant."""
    kernels, forward = [], nodes._forward
    monkeypatch.setattr(nodes, "_forward", lambda *given: kernels.append(forward(*given)) or kernels[-1])

    def function(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks)

    def check(batch, rows):
        blocks = create_block_mask(causal, None, None, rows, rows, device="cpu")
        given = *tensors(torch.float32, batch=batch, rows=rows, keys=rows), blocks
        torch.testing.assert_close(compiled(*given), function(*given), rtol=1e-5, atol=1e-5)

    compiled = nbcompile.compile(function, options=OPTIONS)
    check(1, 130)
    check(1, 260)
    with nbcompile.set_stance("fail_on_recompile"):
        check(1, 140)
    assert [bool(kernel.launch.sizes) for kernel in kernels] == [False, True]
