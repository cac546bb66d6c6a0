"""Transposed accesses go through tiles in registers; the results are eager's for all sizes."""

from __future__ import annotations

import pytest
import torch

import nbcompile

DTYPES = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8,
    torch.bool,
)  # fmt: skip


def sources(function, *inputs, **options):
    """The results of a compiled program, and the text of its kernels."""
    frame_recorder = nbcompile.api.new_recorder("squares")
    with torch.no_grad(), frame_recorder.listening():
        result = nbcompile.compile(function, **options)(*inputs)
    graphs = [frame.compiled_graph for frame in frame_recorder.record().frames if frame.compiled_graph is not None]
    nbcompile.reset()
    return result, "".join(kernel.source for graph in graphs for kernel in graph.kernels)


def numbers(dtype, *size):
    return (torch.arange(torch.Size(size).numel()) * 37 % 251 - 125).reshape(size).to(dtype)


@pytest.mark.parametrize("size", [(16, 32), (64, 64), (8, 9), (37, 130), (130, 65)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_transpose_of_any_type_and_size(dtype, size):
    """Whole tiles, the tails of rows and columns, and elements of one to eight bytes give eager's results."""
    x = numbers(dtype, *size)
    result, text = sources(lambda x: x.t().contiguous(), x)
    assert "load_tile_transposed" in text or "store_tile_transposed" in text
    torch.testing.assert_close(result, x.t().contiguous(), rtol=0, atol=0)
    assert result.is_contiguous()


PROGRAMS = {
    "with a contiguous access": lambda x, y: x * 2 + y.t(),
    "two transposed loads": lambda x, y: (y + 1).t() * (y - x.t()).t(),
    "transposed store": lambda x, y: torch.empty_like(y).t().copy_(x + 1),
    "stores both ways": lambda x, y: (x + y.t(), (x - y.t()).t().contiguous()),
    "numbers of rows and columns": lambda x, y: y.t() * torch.arange(x.shape[0])[:, None] + torch.arange(x.shape[1]),
    "rows and columns of their own": lambda x, y: y.t() * x[:, :1] + x[:1].exp(),
    "under a mask": lambda x, y: (
        torch.nn.functional.pad(y.t(), (3, 2, 1, 4)) + torch.nn.functional.pad(x, (3, 2, 1, 4))
    ),
    "joined": lambda x, y: torch.cat([x, y.t() * 2], 1),
    "gathered": lambda x, y: y.t()[torch.arange(x.shape[0] - 1, -1, -1)] + x,
    "a step": lambda x, y: y[:, ::2].t() + x[::2],
    "narrowed": lambda x, y: (y.t() > x).to(torch.bfloat16),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_transposed_accesses(name, dynamic):
    """Other accesses in the same loops, and symbolic sizes, give eager's results."""
    torch.manual_seed(0)
    function = PROGRAMS[name]
    compiled = nbcompile.compile(function, dynamic=dynamic)
    for rows, columns in ((40, 50), (24, 19)):
        x, y = torch.randn(rows, columns), torch.randn(columns, rows)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    nbcompile.reset()


def test_what_is_changed_in_place_is_read_before():
    """Loops whose loads may alias their stores have no tiles."""

    def change(x):
        x.copy_(x.t() + 1)
        return x * 2

    for size in (16, 33, 64):
        x = torch.randn(size, size)
        expected, given = x.clone(), x.clone()
        torch.testing.assert_close(nbcompile.compile(change)(given), change(expected))
        torch.testing.assert_close(given, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_images_change_their_memory_format(threads):
    """Conversions to channels last and back, with a value per channel, give eager's results above cache sizes."""

    def there(x, scale):
        return (x * scale[:, None, None]).permute(0, 2, 3, 1).contiguous()

    def back(x, scale):
        return (x * scale).permute(0, 3, 1, 2).contiguous()

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for batch, channels, side in ((2, 24, 21), (3, 16, 32), (2, 64, 280)):
            x, scale = torch.randn(batch, channels, side, side), torch.randn(channels)
            result, text = sources(there, x, scale)
            assert "transposed" in text
            torch.testing.assert_close(result, there(x, scale))
            y = x.permute(0, 2, 3, 1).contiguous()
            torch.testing.assert_close(sources(back, y, scale)[0], back(y, scale))
    finally:
        torch.set_num_threads(before)


def test_few_rows_have_no_tiles():
    """A loop over three rows has no tiles, because most of a tile would be empty."""
    _, text = sources(lambda x: x.permute(1, 2, 0).contiguous(), torch.randn(3, 40, 50))
    assert "transposed" not in text


def normalised(x, mean, variance, scale):
    return ((x - mean) * (variance + 1e-5).rsqrt() * scale).permute(0, 2, 1).contiguous()


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
def test_the_loop_with_more_values_of_its_own_is_vectorised(dynamic):
    """A root per channel is computed once per tile, not for each row: the store is transposed instead."""
    for batch, places, channels in ((2, 50, 64), (3, 49, 24)):
        given = (torch.randn(batch, places, channels), *(torch.rand(channels) for _ in range(3)))
        result, text = sources(normalised, *given, dynamic=dynamic)
        assert "store_tile_transposed" in text and "load_tile_transposed" not in text
        torch.testing.assert_close(result, normalised(*given))


def test_the_loops_are_not_swapped_without_gain():
    """Values of the lanes are computed once per tile already, so that the load remains transposed."""
    given = torch.randn(3, 40, 50)
    for scale, expected in ((torch.rand(40), "load_tile_transposed"), (torch.rand(50, 1), "store_tile_transposed")):

        def function(x, scale):
            return (x.permute(0, 2, 1).exp() * scale.sqrt()).contiguous()

        result, text = sources(function, given, scale)
        assert expected in text
        torch.testing.assert_close(result, function(given, scale))


def test_swapped_loops_may_need_no_tile():
    """With symbolic sizes the best order of loops is unknown; the choice of the vectorised loop finds it."""
    x = torch.randn(130, 50)
    result, text = sources(lambda x: x.t() * 2, x, dynamic=True)
    assert "transposed" not in text
    assert torch.equal(result, x.t() * 2)
    assert result.stride() == (x.t() * 2).stride()


LINES = 1 << 11


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int16], ids=str)
def test_a_large_transpose_is_stored_non_temporally(dtype, threads):
    """From 4 MiB on whole cache lines are stored non-temporally, also with tails and if another operator reads them."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for rows, columns in ((LINES, 1024), (LINES - 3, 1041)):
            x = numbers(dtype, rows, columns)
            result, text = sources(lambda x: x.t().contiguous(), x)
            assert "W>(true, " in text or "nt_store_lines_if(true, " in text
            assert "nt_store_fence();" in text
            torch.testing.assert_close(result, x.t().contiguous(), rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)
    y = torch.randn(LINES, 1024)
    product = sources(lambda y: y.t().contiguous() @ torch.ones(LINES, 1), y)[0]
    torch.testing.assert_close(product, y.t() @ torch.ones(LINES, 1), rtol=1e-3, atol=1e-3)


def test_a_symbolic_transpose_is_compared_at_run_time():
    """One kernel serves all sizes."""
    turn = nbcompile.compile(lambda x: (x * 2).t().contiguous(), dynamic=True)
    for rows, columns in ((40, 50), (LINES, 1024), (1000, 1311)):
        x = torch.randn(rows, columns)
        assert torch.equal(turn(x), (x * 2).t())
    nbcompile.reset()
