"""Modules loaded by torch.package, which have mangled names and their own imports."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch.package import PackageExporter, PackageImporter

import nbcompile
from tests.support.graphs import Graphs

MODEL = """
import torch
import packed.numbers
from packed.numbers import scaled
from packed import numbers as known

class Kind:
    factor = 5

class Net(torch.nn.Module):
    def forward(self, x):
        import packed.numbers as late
        from packed.numbers import scaled as found
        x = scaled(x) + known.SCALE + packed.numbers.SCALE + late.SCALE
        return found(x) * Kind.factor

class Breaking(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        print("half way")
        import packed.numbers
        return scaled(x) + packed.numbers.SCALE
"""


def package(folder, scale):
    """A package of two modules; no module of the process is called ``packed``."""
    path = folder / f"{scale}.pt"
    with PackageExporter(str(path)) as exporter:
        exporter.extern("torch.**")
        exporter.save_source_string("packed", "", is_package=True)
        exporter.save_source_string("packed.numbers", f"SCALE = {scale}\ndef scaled(x):\n    return x * SCALE\n")
        exporter.save_source_string("packed.model", MODEL)
    return PackageImporter(str(path)).import_module("packed.model")


@pytest.mark.parametrize(("name", "graphs_of_one"), [("Net", 1), ("Breaking", 2)])
def test_two_packages_of_one_name(tmp_path, name, graphs_of_one, monkeypatch):
    """Each package uses its own modules, not those of the process, with as many graphs as torch.compile."""
    impostor = types.ModuleType("packed")
    impostor.numbers = types.ModuleType("packed.numbers")
    impostor.numbers.SCALE = 1000.0
    monkeypatch.setitem(sys.modules, "packed", impostor)
    monkeypatch.setitem(sys.modules, "packed.numbers", impostor.numbers)
    for scale in (2.0, 7.0):
        model, graphs = getattr(package(tmp_path, scale), name)(), Graphs()
        x = torch.randn(3)
        run = nbcompile.compile(model, backend=graphs)
        for _ in range(2):
            assert torch.equal(run(x), model(x))
        assert len(graphs) == graphs_of_one


def test_what_is_read_of_such_a_module_is_guarded(tmp_path):
    """Another value of a global of the package causes a recompile, although the module has no source by its name."""
    module = package(tmp_path, 2.0)
    model, graphs = module.Net(), Graphs()
    run = nbcompile.compile(model, backend=graphs)
    x = torch.ones(3)
    assert torch.equal(run(x), model(x))
    module.known.SCALE = 3.0
    assert torch.equal(run(x), model(x))
    assert len(graphs) == 2


def test_a_replaced_import_is_called():
    """``__import__`` is read from the builtins of the frame's globals, as in Python."""
    stand_in = types.SimpleNamespace(pi=torch.tensor(3.0))
    module = types.ModuleType("stand_in")
    vars(module).update(vars(stand_in))
    scope = {"__builtins__": {"__import__": lambda *given: module}, "__name__": "elsewhere"}
    exec("def f(x):\n    import math\n    return x * math.pi\n", scope)
    x = torch.ones(2)
    assert torch.equal(nbcompile.compile(scope["f"], backend="eager")(x), x * 3)
