"""Each page in this folder says what the compiler does: the graph, the loops, the kernels."""

from __future__ import annotations

import pytest
import torch

from tests.cases.cases import CASES, expected_and_head, rendered


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="graphs as torch 2.13 writes them")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, request):
    """The page is what the compiler would write now, and the compiled program computes what eager computes."""
    expected, _ = expected_and_head(path)
    found = rendered(path)
    if request.config.getoption("--update"):
        path.write_text(found)
        return
    assert found == expected, f"{path.name} is not what the compiler does now; pytest tests/cases --update rewrites it"


def test_there_are_cases_of_every_kind():
    """At least forty."""
    assert len(CASES) >= 40
