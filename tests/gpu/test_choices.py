"""The choices of matrix products in the record."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.observe.artifacts import ARTIFACTS
from nbcompile.views import html


def test_the_record_has_the_candidates():
    """A kernel, or an ATen call if that was chosen, has all candidates in the record, the best first."""
    options = {"target": "sm_90", "max_autotune": True}
    inputs = torch.randn(64, 48).bfloat16(), torch.randn(48, 64).bfloat16()
    found = nbcompile.explain(lambda x, w: torch.mm(x, w).relu(), options=options)(*inputs)
    (kernel,) = found.kernels
    tuned = kernel.autotuning
    assert (tuned.operator, tuned.sizes, tuned.strides) == ("mm", ("64x48", "48x64"), ("[48, 1]", "[64, 1]"))
    times = [candidate.microseconds for candidate in tuned.candidates]
    assert times == sorted(times)
    assert "mm" in [candidate.name for candidate in tuned.candidates[1:]]
    assert not any(candidate.measured for candidate in tuned.candidates)
    (table,) = ARTIFACTS["autotuning"](found.record.frames[0])
    assert table.splitlines()[:3] == [
        "AUTOTUNE mm(64x48, 48x64)", "strides: [48, 1], [64, 1]", "dtypes: torch.bfloat16, torch.bfloat16"
    ]  # fmt: skip
    assert table.splitlines()[3].endswith(" ms 100.0%")
    assert "Candidates of mm(64x48, 48x64)" in html.render(found.record, ("kernels",))
