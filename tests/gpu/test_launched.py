"""Compilation of a graph for the installed GPU."""

from __future__ import annotations

import types

import pytest
import torch
from torch import fx

from nbcompile.gpu import launched, loading
from nbcompile.gpu.chip import CHIPS


def autotuner(monkeypatch, chip: str, backends: tuple[str, ...]):
    monkeypatch.setattr(loading, "chip_name", lambda gpu, number: chip)
    graph = fx.Graph()
    graph.output((graph.placeholder("x"),))
    return launched._autotuner(object(), backends, fx.GraphModule({}, graph))


@pytest.mark.parametrize(
    ("chip", "backends", "measures"),
    [("sm_90", ("ATEN", "TRITON"), True), ("sm_90", ("ATEN",), False), ("sm_1", ("ATEN", "TRITON"), False)],
    ids=["both", "the library alone", "an unknown chip"],
)
def test_products_are_measured_on_a_known_chip(monkeypatch, chip, backends, measures):
    """Products are measured if Triton has candidates and the model knows the chip; otherwise ATen is used."""
    found = autotuner(monkeypatch, chip, backends)
    assert (found.timing is not None) is measures
    assert found.chip in CHIPS.values()


def test_a_graph_has_the_least_capability_of_its_gpus(monkeypatch):
    """The least capability is that of the GPUs of kernels; without a GPU it is 0."""
    monkeypatch.setattr(loading, "capability", lambda gpu, device: (80, 90)[device])
    kernels = [types.SimpleNamespace(device=torch.device(name)) for name in ("cpu", "cuda:1", "cuda:0")]
    planned = types.SimpleNamespace(kernels=lambda: kernels)
    assert launched._capability(planned, object()) == 80
    del kernels[1:]
    assert launched._capability(planned, object()) == 0
