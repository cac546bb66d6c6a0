"""Figures of GPUs: each chip is found by its name, and its figures are consistent."""

from __future__ import annotations

import pytest

from nbcompile.gpu.chip import CHIPS


@pytest.mark.parametrize("name", CHIPS)
def test_figures_fit_one_another(name):
    """A full multiprocessor has at least 32 registers for each thread, and memory slower than its arithmetic."""
    chip = CHIPS[name]
    assert chip.name == name
    assert f"sm_{chip.capability}" == name
    assert chip.registers >= 32 * chip.threads
    assert chip.threads % 32 == 0
    assert chip.bytes_per_second < chip.multiprocessors * 128 * 4 * chip.cycles_per_second


def test_newer_chips_are_not_slower():
    """A newer chip has more memory bandwidth and at least as many multiprocessors."""
    chips = sorted(CHIPS.values(), key=lambda chip: chip.capability)
    for older, newer in zip(chips, chips[1:], strict=False):
        assert newer.bytes_per_second > older.bytes_per_second
        assert newer.multiprocessors >= older.multiprocessors
