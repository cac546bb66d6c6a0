"""The golden table of budgets: what each case page needs on three GPUs has not grown (tests/gpu/budgets.py)."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.gpu.chip import CHIPS
from tests.cases import cases
from tests.gpu import budgets

SAMPLED = ("softmax", "layer_norm_backward")
"""Pages that are compiled for the other two GPUs in each run; for sm_90 all are, by test_cases.py."""


def compared(page: str, chip: str) -> None:
    path = next(path for path in cases.CASES if path.stem == page)
    found, golden = budgets.of(budgets.kernels(path, CHIPS[chip])), budgets.golden()[page][chip]
    assert golden.fits(found), f"{page} on {chip}: {found.text()}, and the table says {golden.text()}"


@pytest.mark.parametrize("chip", ["sm_80", "sm_100"])
@pytest.mark.parametrize("page", SAMPLED)
def test_a_page_needs_no_more_than_before(page, chip):
    """Registers and shared memory are within 10 percent, without new spills, narrower accesses or approximations."""
    compared(page, chip)


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("page", [path.stem for path in cases.CASES])
def test_all_pages(page, chip):
    """Each page on each GPU is within its budget (``make sweep``)."""
    compared(page, chip)


def test_every_page_has_a_line():
    """Each page has a line, and there are no other lines."""
    assert list(budgets.golden()) == [path.stem for path in cases.CASES]
    assert all(tuple(of_page) == tuple(CHIPS) for of_page in budgets.golden().values())


def test_nothing_spills():
    """No page spills on any of the three GPUs."""
    assert not any(budget.spilled_bytes for of_page in budgets.golden().values() for budget in of_page.values())


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True), ({"registers": 33}, True), ({"registers": 34}, False), ({"spilled_bytes": 8}, False),
        ({"shared_bytes": 120}, False), ({"widest": 4}, False), ({"approximate": ("sin.approx.f32",)}, False),
        ({"registers": 8, "widest": 16, "approximate": ()}, True),
    ],
)  # fmt: skip
def test_what_fits_a_budget(change, fits):
    """A smaller need always fits."""
    golden = budgets.Budget(30, 0, 100, 8, ("ex2.approx.f32",))
    values = {name: getattr(golden, name) for name in budgets.Budget.__dataclass_fields__}
    assert golden.fits(budgets.Budget(**(values | change))) is fits
    assert budgets.Budget.parse(golden.text()) == golden
