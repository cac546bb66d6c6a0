"""Large results that the graph does not read are stored non-temporally; rows are prefetched."""

from __future__ import annotations

import pytest
import torch

import nbcompile

LARGE = 1 << 23
"""Elements of 4 bytes that make 32 MiB."""


def compiled(function, *arguments, **options):
    """The result, and the text of all kernels."""
    frame_recorder = nbcompile.api.new_recorder("streaming")
    with frame_recorder.listening():
        result = nbcompile.compile(function, **options)(*arguments)
    graphs = [frame.compiled_graph for frame in frame_recorder.record().frames if frame.compiled_graph is not None]
    nbcompile.reset()
    return result, "\n".join(kernel.source for graph in graphs for kernel in graph.kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_result_is_stored_non_temporally(dtype, threads):
    """Non-temporal stores work for every type, with a tail, in one thread and in two."""
    count = LARGE * 4 // dtype.itemsize + 13
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (count,)).to(dtype)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        result, text = compiled(lambda x: ~x if x.dtype == torch.bool else x + 1, x)
    finally:
        torch.set_num_threads(before)
    assert "nt_store(out0" in text and "nt_store_fence();" in text
    assert torch.equal(result, ~x if dtype == torch.bool else x + 1)


def test_a_symbolic_size_is_compared_at_run_time():
    """One kernel serves all sizes, including rows with a tail."""

    def function(x):
        return torch.relu(x) * 2

    _, text = compiled(function, torch.randn(3, 7), dynamic=True)
    assert "nt_store_if(out0_is_large, out0" in text
    again = nbcompile.compile(function, dynamic=True)
    for rows, columns in ((3, 7), (LARGE // 1000 + 1, 1001), (64, 32), (2, LARGE)):
        x = torch.randn(rows, columns)
        assert torch.equal(again(x), function(x))


def test_a_small_result_is_stored_normally():
    """A result that fits into a cache stays there."""
    _, text = compiled(lambda x: x + 1, torch.randn(LARGE // 2))
    assert "store(out0" in text and "nt_store" not in text


def test_a_result_that_the_graph_reads_is_stored_normally():
    """A result that an extern call reads is stored normally, so that it is in the cache."""
    x = torch.randn(1, LARGE)

    def function(x):
        y = x + 1
        return y, y @ x.mT

    (shifted, product), text = compiled(function, x)
    assert "nt_store(" not in text
    torch.testing.assert_close((shifted, product), function(x), rtol=1e-3, atol=1.0)


def test_an_input_that_is_mutated_is_stored_normally():
    """A mutated input is stored normally, because its cache lines were loaded already."""
    x = torch.zeros(LARGE)
    _, text = compiled(lambda x: x.add_(1), x)
    assert "nt_store(" not in text
    assert bool((x == 1).all())


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax], ids=lambda each: each.__name__)
def test_rows_are_prefetched(function):
    """The second pass over a row prefetches a later row, unless the tensor is small."""
    for rows, ahead in ((8192, True), (64, False)):
        x = torch.randn(rows, 1024)
        result, text = compiled(lambda x: function(x, -1), x)
        assert ("prefetch_l2(in0 + " in text) == ahead
        torch.testing.assert_close(result, function(x, -1))


def test_two_tensors_are_prefetched_in_two_passes():
    """Each later pass prefetches a part of the first pass's loads, so that the prefetches are spread over time."""
    x, y = torch.randn(8192, 1024), torch.randn(8192, 1024)

    def function(x, y):
        return torch.nn.functional.layer_norm(x + y, (1024,))

    result, text = compiled(function, x, y)
    first, second, third = text.split("const auto step = ")[1:]
    assert "prefetch_l2(" not in first
    assert "prefetch_l2(in0 + 1024*i0 + i1 + 2048)" in second and "prefetch_l2(in1" not in second
    assert "prefetch_l2(in1 + 1024*i0 + i1 + 2048)" in third and "prefetch_l2(in0" not in third
    torch.testing.assert_close(result, function(x, y))
