"""Constants of the cost model, and the relations between them."""

from __future__ import annotations

from nbcompile.codegen import machine_model as model


def test_one_thread_is_not_asked_to_release_the_interpreter():
    """A kernel that runs in one thread does not release the GIL."""
    assert model.SERIAL_WORK < model.GIL_RELEASE_WORK


def test_panels_hold_whole_vectors():
    """Each panel begins at a multiple of the longest vector, and its largest row fits into L2."""
    assert model.MAX_PANEL_ROWS % model.ALIGNED_SIZE == 0
    assert model.BLOCK_TILES < model.LONG_BLOCK_TILES
    assert model.PANEL_BYTES >= model.MAX_PANEL_ROWS * 4


def test_scattered_stores_bypass_the_cache_earlier():
    """A scattered store is non-temporal at a smaller size, because it writes to a whole cache line."""
    assert model.NON_TEMPORAL_TILE_BYTES < model.NON_TEMPORAL_BYTES


def test_costly_bodies_have_fewer_accumulators():
    """Expensive bodies have fewer accumulators: accumulators and operands share the registers."""
    assert model.COSTLY_UNROLL < model.CHEAP_UNROLL
    assert model.COLUMN_UNROLL_COSTLY < model.COLUMN_UNROLL < model.COLUMN_UNROLL_SIMPLE
    assert model.SIMPLE_BODY_COST < model.COSTLY_BODY_COST


def test_blocks_of_triton_are_powers_of_two():
    """``tl.arange`` takes only powers of two."""
    blocks = (model.TRITON_BLOCK, model.LONG_ROW_BLOCK, model.SMALL_BLOCK, model.UNEVEN_BLOCK, model.TRITON_TILE)
    assert all(block & (block - 1) == 0 for block in blocks)
    assert model.MAX_WARPS <= model.MOST_WARPS
