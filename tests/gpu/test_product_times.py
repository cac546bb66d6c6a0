"""The model of matrix products on a GPU: the bottleneck, and the order of tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.product_times import Shape, fits, predict, rate, resident, shared_bytes
from nbcompile.gpu.templates import LIBRARY_TILES
from nbcompile.ir.kernel import ProductTile

H200 = CHIPS["sm_90"]
LARGE, SMALL = ProductTile(128, 128, 64, 8, 4), ProductTile(32, 32, 32, 4, 4)


def moved(shape: Shape) -> int:
    return 2 * (shape.rows * shape.depth + shape.depth * shape.columns + shape.rows * shape.columns)


def seconds(tile: ProductTile, *sizes: int) -> float:
    shape = Shape(1, *sizes, 2, "narrow")
    return predict(tile, shape, H200, moved(shape)).seconds


def test_a_large_product_is_limited_by_the_matrix_units():
    """8192 x 8192 x 8192 in bfloat16 is within 10 % of ATen's measured time on an H200, 1.4 ms."""
    assert min(seconds(tile, 8192, 8192, 8192) for tile in LIBRARY_TILES) == pytest.approx(
        2 * 8192**3 / 788e12, rel=0.1
    )


def test_large_tiles_are_for_large_products():
    """Large tiles share loads; a small product has too few of them for all multiprocessors."""
    assert seconds(LARGE, 8192, 8192, 8192) < seconds(SMALL, 8192, 8192, 8192) / 2
    assert seconds(SMALL, 256, 256, 2048) < seconds(LARGE, 256, 256, 2048)


def test_few_rows_are_limited_by_memory_or_latency():
    """A product of 16 x 8192 x 8192 loads the weights once."""
    shape = Shape(1, 16, 8192, 8192, 2, "narrow")
    found = predict(ProductTile(16, 64, 64, 4, 5), shape, H200, moved(shape))
    assert found.seconds < 3 * moved(shape) / H200.bytes_per_second
    assert found.seconds > moved(shape) / H200.bytes_per_second


def test_more_stages_hide_latency_and_take_shared_memory():
    """More stages hide latency and need more shared memory, up to the limit of a multiprocessor."""
    few, many = (ProductTile(64, 64, 32, 4, stages) for stages in (2, 5))
    assert seconds(many, 1024, 1024, 4096) < seconds(few, 1024, 1024, 4096)
    assert shared_bytes(many, 2) == 4 * shared_bytes(few, 2)
    assert resident(many, Shape(1, 1024, 1024, 64, 2, "narrow"), H200) <= resident(
        few, Shape(1, 1024, 1024, 64, 2, "narrow"), H200
    )


def test_what_does_not_fit():
    """A tile does not fit if it exceeds shared memory, or the registers of a thread."""
    shape = Shape(1, 4096, 4096, 4096, 2, "narrow")
    assert not fits(ProductTile(256, 256, 64, 8, 5), shape, H200)
    assert not fits(ProductTile(128, 256, 32, 4, 2), shape, H200)
    assert fits(LARGE, shape, H200)
    wide = ProductTile(128, 256, 64, 8, 3)
    assert fits(wide, shape, H200)
    assert not fits(wide, replace(shape, has_epilogue=True), H200)  # 56 bytes would spill


def test_rates_of_types():
    """tf32 is half as fast as 16 bits, and far faster than float32, which has no matrix units."""
    assert rate(H200, "narrow") == 2 * rate(H200, "tf32") > 10 * rate(H200, "float32")
