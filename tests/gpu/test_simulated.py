"""Launches whose simulation would take too long: only a sample of the programs is simulated."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile import errors
from nbcompile.gpu import simulated

ON_SM_90 = {"target": "sm_90"}


def test_programs_of_a_launch_that_takes_too_long_are_a_sample():
    """The result is eager's, and the kernel has the figures of all programs."""

    def function(x):
        return (x * 2).sin()

    x = torch.randn(64, 4096)
    whole = nbcompile.explain(function, options=ON_SM_90)(x).kernels[0].gpu
    options = {**ON_SM_90, "simulation_seconds": 1e-9, "simulated_programs": 8}
    with pytest.warns(errors.GeneratedCodeWarning, match=r"8 of its \d+ programs were simulated"):
        found = nbcompile.explain(function, options=options)(x)
    torch.testing.assert_close(found.result, function(x))
    sampled = found.kernels[0].gpu
    for name in ("registers", "blocks", "coalescing", "moved", "least", "limit"):
        assert getattr(sampled, name) == getattr(whole, name), name
    assert sampled.predicted_us == pytest.approx(whole.predicted_us, rel=0.05)


@pytest.mark.parametrize(
    "x", [torch.randn(64, 1).expand(64, 2048), torch.randn(64, 4096)[:, 1::2]], ids=["expanded", "gaps"]
)
def test_a_sample_reads_and_writes_copies_of_any_layout(x):
    """Expanded and strided tensors are copied for a sample; the memory figures are those of all programs."""

    def function(x):
        return (x * 2).sin()

    whole = nbcompile.explain(function, options=ON_SM_90)(x).kernels[0].gpu
    options = {**ON_SM_90, "simulation_seconds": 1e-9, "simulated_programs": 8}
    with pytest.warns(errors.GeneratedCodeWarning, match=r"8 of its \d+ programs were simulated"):
        found = nbcompile.explain(function, options=options)(x)
    torch.testing.assert_close(found.result, function(x), rtol=0, atol=0)
    assert found.kernels[0].gpu.least == pytest.approx(whole.least, rel=0.05)


def test_a_sample_is_simulated_in_the_first_call_alone(monkeypatch):
    """Later calls are not simulated."""
    runs = []
    simulate = simulated._simulated
    monkeypatch.setattr(simulated, "_simulated", lambda *given: runs.append(given) or simulate(*given))
    options = {**ON_SM_90, "simulation_seconds": 1e-9, "simulated_programs": 2}
    compiled = nbcompile.compile(lambda x: x.sin() + 3, options=options)
    for _ in range(3):
        x = torch.randn(4000)
        with pytest.warns(errors.GeneratedCodeWarning, match=r"2 of its \d+ programs were simulated"):
            torch.testing.assert_close(compiled(x), x.sin() + 3)
    assert len(runs) == 1


def test_a_sample_that_would_take_too_long_is_not_simulated(monkeypatch):
    """The limit holds for the sample, too: one program's loop may be as long as the launch."""
    monkeypatch.setattr(simulated, "SAMPLE_SECONDS", 1e-9)
    options = {**ON_SM_90, "simulation_seconds": 1e-9, "simulated_programs": 1}
    compiled = nbcompile.compile(lambda x: x.sin() + 4, options=options)
    x = torch.randn(4000)
    with pytest.warns(errors.GeneratedCodeWarning, match=r"[\d.e-]+ for 1 of its \d+ programs"):
        torch.testing.assert_close(compiled(x), x.sin() + 4)
