"""The code for a GPU of every case page, in the simulator: eager's results, and nothing that a GPU would stop for."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from nbcompile import config
from tests.cases import cases
from tests.gpu import budgets, corpus

REJECTED: dict[str, str] = {}
"""Pages with a kernel that has no Triton form yet: its operators run through ATen. It may only shrink."""


@pytest.mark.parametrize("path", cases.CASES, ids=lambda path: path.stem)
def test_the_compiled_code_gives_eagers_results(path):
    """The simulated code has no illegal access and no race, gives eager's values, and is within its budget."""
    rows = corpus.page(path)
    for row in rows:
        assert (row.fault, row.differs, row.rejected) == ("", "", REJECTED.get(path.stem, ""))
        assert all(each.built.spilled_bytes == 0 for each in row.launches)
        assert all(each.times.predicted >= each.times.roofline for each in row.launches)
    if config.reference and path.stem in cases.WRITTEN_OTHERWISE_BY_AOTAUTOGRAD:
        return  # another graph, with a separate budget
    needed = budgets.of([launch.built for row in rows for launch in row.launches])
    assert budgets.golden()[path.stem]["sm_90"].fits(needed), needed.text()
