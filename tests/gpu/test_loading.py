"""Graphs on a GPU in the store: a later process launches them without lowering and without Triton."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from tests.gpu.libraries import copy_libraries
from tests.support.processes import command, python

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU")

PROGRAM = """
import json, sys, warnings
from nbcompile.gpu.standin import device
import torch, nbcompile
from nbcompile.gpu import cubins
from nbcompile.record.recorder import Recorder

how = json.loads(sys.argv[1])
with device.standin() as here:
    version = how.get("triton")
    if version:
        cubins.triton_version = lambda: version
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)).to("cuda")

    def f(x):
        y = net(x)
        print("between", file=sys.stderr)
        return torch.softmax(y, -1)

    recorder = Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(f, mode=how.get("mode"))
        for call in range(3):
            x = torch.randn(6, 4, device="cuda", requires_grad=True)
            grads = []
            for run in (compiled, f):
                torch.manual_seed(call)
                x.grad = None
                result = run(x)
                result.square().sum().backward()
                grads.append((result, x.grad.clone()))
            for found, expected in zip(*grads, strict=True):
                assert float((found - expected).abs().max()) < 1e-5
            if how.get("unaligned"):
                base = torch.randn(6 * 4 + 1, device="cuda")[1:].view(6, 4)
                torch.manual_seed(call); first = compiled(base)
                torch.manual_seed(call); assert float((first - f(base)).abs().max()) < 1e-5
    from nbcompile.fast.disk_cache import writer
    writer.flush()
    watched = ("triton", "sympy", "torch._dynamo", "nbcompile.driver", "nbcompile.tracing", "nbcompile.lowering",
               "nbcompile.scheduling", "nbcompile.codegen.triton")
    print(json.dumps({
        "imported": [name for name in watched if name in sys.modules],
        "causes": [frame.cause for frame in recorder.frames],
        "stored": [frame.store for frame in recorder.frames],
        "workers": len(cubins._workers.idle),
        "replays": sum(line.startswith("replay") for line in here.driver.log()),
        "launches": here.driver.launches(),
        "reasons": here.executor.reasons,
    }))
"""


def run(folder, **how):
    """The program in a separate process."""
    where = {"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_FRAMES_DIR": folder / "frames", "NBCOMPILE_WARM_START": "1"}
    found = json.loads(python(PROGRAM, json.dumps(how), **where).splitlines()[-1])
    assert found["reasons"] == []
    assert found["launches"] > 0
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that one process has filled."""
    folder = copy_libraries(tmp_path_factory.mktemp("store"))
    first = run(folder, mode="reduce-overhead", unaligned=True)
    assert first["workers"] > 0
    assert not any("not kept" in text for text in first["stored"]), first["stored"]
    return folder, first


@pytest.mark.fast_path
def test_a_second_process_lowers_nothing_and_imports_no_triton(store):
    """Forward and backward graphs, on both sides of a graph break, for each alignment, come from the store."""
    folder, first = store
    second = run(folder, mode="reduce-overhead", unaligned=True)
    assert all(cause.startswith("loaded") for cause in second["causes"]), second
    assert second["imported"] == []
    assert second["workers"] == 0
    assert (second["launches"], second["replays"]) == (first["launches"], first["replays"])
    assert second["replays"] > 0


def test_another_triton_compiles_again(store):
    """Code from another version of Triton is not loaded."""
    second = run(store[0], mode="reduce-overhead", triton="2.0.0")
    assert not any(cause.startswith("loaded") for cause in second["causes"])
    assert second["workers"] > 0


@pytest.mark.fast_path
def test_an_archive_takes_graphs_of_kernels_to_an_empty_store(store, tmp_path):
    """Another machine loads cubins, launch plans and both graphs from the archive, without Triton."""
    folder, first = store
    # The stand-in is a library in the store, and is patched: the empty store has the same path.
    aside, archive = folder.with_name(f"{folder.name}-aside"), str(tmp_path / "model.zip")
    where = {"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_FRAMES_DIR": None}
    words = [sys.executable, "-m", "nbcompile", "cache"]
    command(*words, "save", archive, **where)
    folder.rename(aside)
    try:
        folder.mkdir(mode=0o700)
        copy_libraries(folder)
        command(*words, "load", archive, **where)
        second = run(folder, mode="reduce-overhead", unaligned=True)
    finally:
        folder.rename(tmp_path / "loaded")
        aside.rename(folder)
    assert all(cause.startswith("loaded") for cause in second["causes"]), second
    assert (second["imported"], second["workers"]) == ([], 0)
    assert (second["launches"], second["replays"]) == (first["launches"], first["replays"])
