"""Flex attention on the stand-in device: results and gradients are eager mode's, in generated kernels."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import nbcompile
from tests.lowering.attention_functions import by_case, causal, nothing_for_some, relative, soft_cap, window

FORWARD, OF_QUERY, OF_KEYS = "triton_flex_attention", "triton_flex_attention_of_query", "triton_flex_attention_of_keys"


@pytest.fixture(autouse=True)
def checked(here):
    """The simulator checks for races; torch's warning about its slow attention is ignored."""
    here.executor.check_races = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
    here.executor.check_races = False


def tensors(
    dtype=torch.float16, *, batch=1, heads=2, shared=2, rows=64, keys=64, width=16, value_width=16, batch_of_keys=None
):
    """Query, keys and values."""
    torch.manual_seed(0)
    of_keys = batch if batch_of_keys is None else batch_of_keys
    sizes = (batch, heads, rows, width), (of_keys, shared, keys, width), (of_keys, shared, keys, value_width)
    return [torch.randn(size).to(dtype).to("cuda").requires_grad_() for size in sizes]


def launched(here) -> list[str]:
    """The attention kernels that were launched, without other generated kernels."""
    names = [line.split()[1] for line in here.driver.log() if line.startswith("launch ")]
    return [name for name in names if name.startswith(FORWARD) and not name[-1].isdigit()]


def trained(function, inputs):
    """Results, and gradients of a weighted sum of the results."""
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((value.float().nan_to_num(neginf=0.0) * (at + 1)).sin().sum() for at, value in enumerate(results))
    wanted = [value for value in inputs if value.requires_grad]
    return [*results, *torch.autograd.grad(loss, wanted)]


def check(here, function, inputs, names=(FORWARD, OF_QUERY, OF_KEYS)):
    """Compiled results and gradients are eager mode's, from these kernels."""
    expected = trained(function, inputs)
    here.driver.clear_log()
    found = trained(nbcompile.compile(function, fullgraph=True), inputs)
    assert launched(here) == list(names)
    assert here.executor.reasons == []
    # In 16 bits both are rounded at different points: their errors are compared.
    exact = trained(function, [value.detach().float().requires_grad_() for value in inputs])
    for mine, theirs, true in zip(found, expected, exact, strict=True):
        assert (mine.dtype, mine.stride()) == (theirs.dtype, theirs.stride())
        if inputs[0].dtype == torch.float32:
            torch.testing.assert_close(mine.cpu(), theirs.cpu(), rtol=1e-4, atol=1e-5)
        else:
            assert error(mine, true) <= 1.5 * error(theirs, true) + 1e-3


def error(found, true):
    """The largest difference; infinities must be equal."""
    found, true = found.cpu().float(), true.cpu()
    assert torch.equal(found.isfinite(), true.isfinite())
    return (found - true).nan_to_num().abs().max().item()


def squared(s, b, h, i, j):
    return s**2 * 0.1 + torch.sigmoid(s)


def attention(score, mask, rows, keys, B=None):
    """A flex attention as a function of query, keys and values."""
    blocks = create_block_mask(mask, B, None, rows, keys, device="cuda") if mask else None

    def function(q, k, v):
        gqa = q.size(1) != k.size(1)
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=gqa)

    return function


@pytest.mark.parametrize(("score", "mask", "keys"), [
    (None, nothing_for_some, 64), (relative, window, 64), (soft_cap, None, 64), (squared, causal, 64),
    (by_case, nothing_for_some, 40),
])  # fmt: skip
def test_gradients_of_scores_and_masks(here, score, mask, keys):
    """Gradients of scores and masks equal eager's; those of a row without keys are 0."""
    check(here, attention(score, mask, 64, keys), tensors(keys=keys))


@pytest.mark.parametrize("sizes", [
    {"dtype": torch.bfloat16, "heads": 4, "rows": 70, "keys": 33, "width": 24, "value_width": 40},
    {"dtype": torch.float32, "width": 20, "rows": 40}, {"batch": 2, "batch_of_keys": 1, "width": 80, "rows": 130},
], ids=str)  # fmt: skip
def test_gradients_of_types_and_sizes(here, sizes):
    """Gradients with shared heads, batches that share keys, and sizes that are no multiples of a tile are eager's."""
    q, k, v = tensors(**sizes)
    is_split = q.size(2) < k.size(2) or q.dtype == torch.float32
    forward = [f"{FORWARD}_split", f"{FORWARD}_combine"] if is_split else [FORWARD]
    function = attention(relative, causal, q.size(2), k.size(2), B=q.size(0) if q.size(0) > k.size(0) else None)
    check(here, function, [q, k, v], (*forward, OF_QUERY, OF_KEYS))


def test_blocks_of_rows_are_listed_too(here):
    """A causal mask lists six of 3 x 3 blocks, three of them full; the gradient of the logsumexp counts, too."""
    blocks = create_block_mask(causal, None, None, 192, 192, device="cuda", BLOCK_SIZE=64)

    def function(q, k, v):
        out, others = flex_attention(q, k, v, block_mask=blocks, return_aux=AuxRequest(lse=True))
        return out, others.lse

    check(here, function, tensors(heads=1, shared=1, rows=192, keys=192))


def test_tensors_that_the_function_reads_have_gradients(here):
    """Tensors that are read by head, distance or row have gradients, by atomic additions in float32."""
    q, k, v = tensors()
    slopes, table = torch.randn(2, device="cuda", requires_grad=True), torch.randn(127, device="cuda").half()
    bias = torch.randn(2, 64, device="cuda", requires_grad=True)
    documents = torch.arange(64, device="cuda") // 24

    def function(q, k, v, slopes, table, bias):
        def score(s, b, h, i, j):
            same = torch.where(documents[i] == documents[j], s, s - 2.0)
            return same * slopes[h] + table[i - j + 63] + bias[h, i]

        return flex_attention(q, k, v, score_mod=score)

    check(here, function, [q, k, v, slopes, table.requires_grad_(), bias])


@pytest.mark.parametrize(("mask", "sizes"), [
    (None, {"heads": 4, "rows": 3, "keys": 300}), (nothing_for_some, {"rows": 20, "keys": 200}),
    (causal, {"rows": 1, "keys": 100, "dtype": torch.float32, "batch": 2, "batch_of_keys": 1}),
])  # fmt: skip
def test_several_programs_share_the_keys_of_few_rows(here, mask, sizes):
    """Each program has a part of the listed blocks; a second kernel combines them, for rows without a key, too."""
    q, k, v = (value.detach() for value in tensors(**sizes))
    blocks = mask and create_block_mask(mask, q.size(0), None, q.size(2), k.size(2), device="cuda")

    def function(q, k, v):
        gqa = q.size(1) != k.size(1)
        aux = AuxRequest(lse=True)
        out, others = flex_attention(q, k, v, score_mod=relative, block_mask=blocks, enable_gqa=gqa, return_aux=aux)
        return out, others.lse

    expected = function(q, k, v)
    here.driver.clear_log()
    found = nbcompile.compile(function, fullgraph=True)(q, k, v)
    assert launched(here) == [f"{FORWARD}_split", f"{FORWARD}_combine"]
    assert here.executor.reasons == []
    tolerance = {"rtol": 2e-2, "atol": 1e-2} if q.dtype == torch.float16 else {"rtol": 1e-5, "atol": 1e-5}
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs.cpu(), **tolerance)


def test_gradients_of_all_sizes_are_from_the_same_kernels(here):
    """Symbolic batch, rows and keys: other sizes do not recompile."""

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=relative)

    compiled = nbcompile.compile(function, fullgraph=True, dynamic=True)
    trained(compiled, tensors(torch.float32, batch=3, rows=70, keys=40))
    for batch, rows, keys in ((3, 70, 40), (5, 33, 80), (4, 130, 21)):
        inputs = tensors(torch.float32, batch=batch, rows=rows, keys=keys)
        here.driver.clear_log()
        with nbcompile.set_stance("fail_on_recompile"):
            found = trained(compiled, inputs)
        assert launched(here) == [FORWARD, OF_QUERY, OF_KEYS]
        for mine, theirs in zip(found, trained(function, inputs), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
