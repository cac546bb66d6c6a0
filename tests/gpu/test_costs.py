"""Sectors and passes of memory accesses."""

from __future__ import annotations

import numpy as np
import pytest

from nbcompile.gpu.costs import Costs, scaled, total

LANES = np.arange(32)
ONE_WARP = np.zeros(32, np.int64)


@pytest.mark.parametrize(("step", "sectors", "coalescing"), [(4, 4, 1.0), (8, 8, 0.5), (128, 32, 0.125), (0, 1, 1.0)])
def test_sectors_are_counted_for_a_warp(step, sectors, coalescing):
    """Adjacent lanes share sectors of 32 bytes, and equal addresses are a broadcast."""
    costs = Costs(1)
    costs.count_global(LANES * step, 4, ONE_WARP)
    assert (costs.requests, costs.sectors, costs.coalescing) == (1, sectors, coalescing)


def test_warps_share_no_sector():
    """Two warps with the same addresses load the sectors twice."""
    costs = Costs(1)
    costs.count_global(np.tile(LANES * 4, 2), 4, np.repeat([0, 1], 32))
    assert (costs.requests, costs.sectors) == (2, 8)


@pytest.mark.parametrize(("words", "passes"), [(1, 1), (32, 32), (33, 1), (2, 2), (0, 1)])
def test_one_bank_takes_turns(words, passes):
    """A column of 32 rows is in one bank; rows that are one word longer use all banks."""
    costs = Costs(1)
    costs.count_shared(LANES * words * 4, 4, ONE_WARP)
    assert costs.passes == passes


def test_costs_are_added_and_scaled():
    """The costs of a sample are scaled; the total of several lines has no line."""
    costs = Costs(3, instructions=2, sectors=5)
    assert scaled(costs, 2.5) == Costs(3, instructions=5, sectors=12)
    assert total([costs, Costs(4, sectors=1)]) == Costs(0, instructions=2, sectors=6)


def test_a_word_that_two_wide_accesses_share_is_a_broadcast():
    """A word that two lanes load is a broadcast, and no bank conflict."""
    costs = Costs(1)
    costs.count_shared(np.array([0, 4]), 8, np.zeros(2, np.int64))
    assert costs.passes == costs.least_passes == 1
