"""Graphs with a program's own Triton kernels in the store: a later process compiles only edited kernels."""

from __future__ import annotations

import json

import pytest
import torch

from tests.gpu.libraries import copy_libraries
from tests.support.processes import python

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU")

KERNELS = """
import triton
import triton.language as tl

import shifts

FACTOR = tl.constexpr(3)

@triton.jit
def below(x):
    return x + 5

@triton.jit
def by_text(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def by_global(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * FACTOR, mask=at < n)

@triton.jit
def by_module(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + shifts.SHIFT, mask=at < n)

@triton.jit
def by_callee(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, below(tl.load(x + at, mask=at < n)), mask=at < n)

@triton.jit
def multiply(x, out, n, BY: tl.constexpr, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at, mask=at < n) * BY).to(TYPE), mask=at < n)

by_heuristic = triton.heuristics({"BY": lambda given: 6.0})(multiply)
"""
SHIFTS = """
import triton.language as tl

SHIFT = tl.constexpr(4)
"""
EDITS = [
    ("mask=at < n) * 2", "mask=at < n) * 12"), ("FACTOR = tl.constexpr(3)", "FACTOR = tl.constexpr(13)"),
    ("SHIFT = tl.constexpr(4)", "SHIFT = tl.constexpr(14)"), ("return x + 5", "return x + 15"),
    ("given: 6.0", "given: 16.0"),
]  # fmt: skip
"""One for each of the five kernels."""
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import triton, torch, nbcompile, kernels
import triton.language as tl

compiled_by_triton = []
at_first, translate = triton.compile, triton.compiler.ASTSource.make_ir
triton.compile = lambda source, *more, **named: (compiled_by_triton.append(source.name), at_first(source, *more, **named))[1]
def make_ir(self, *more, **named):
    compiled_by_triton.append(self.name)
    return translate(self, *more, **named)
triton.compiler.ASTSource.make_ir = make_ir

from nbcompile.fast.disk_cache import writer
from nbcompile.record.recorder import Recorder

def text(x):
    out = torch.empty_like(x)
    kernels.by_text[(1,)](x, out, x.numel(), BLOCK=128)
    return out

def value(x):
    out = torch.empty_like(x)
    kernels.by_global[(1,)](x, out, x.numel(), BLOCK=128)
    return out + 0

def module(x):
    kernels.by_module[(1,)](x, x, x.numel(), BLOCK=128)
    return x * 1

def callee(x):
    out = torch.empty_like(x)
    kernels.by_callee[(1,)](x, out, x.numel(), BLOCK=128)
    kernels.by_callee[(1,)](out, out, 50, BLOCK=64)
    return out

def heuristic(x):
    out = torch.empty_like(x)
    kernels.by_heuristic[(1,)](x, out, x.numel(), TYPE=tl.float32, BLOCK=128)
    return out

FUNCTIONS = [text, value, module, callee, heuristic]
if sys.argv[2] == "target":
    options, device = {"target": "sm_90"}, "cpu"
    run = lambda: None
else:
    from nbcompile.gpu.standin import device as standin
    options, device = {}, "cuda"

def main():
    x, found, causes, stored = torch.arange(100.0), [], [], []
    recorder = Recorder("kernels")
    with recorder.listening():
        for function in FUNCTIONS:
            compiled = nbcompile.compile(function, fullgraph=True, options=options)
            found.append(compiled(x.clone().to(device)).cpu().tolist())
    writer.flush()
    watched = ("sympy", "torch._dynamo", "nbcompile.driver", "nbcompile.tracing", "nbcompile.lowering",
               "nbcompile.scheduling", "nbcompile.codegen.triton")
    return {
        "results": found, "causes": [frame.cause for frame in recorder.frames],
        "stored": [frame.store for frame in recorder.frames], "by_triton": compiled_by_triton,
        "imported": [name for name in watched if name in sys.modules],
    }

if device == "cuda":
    with standin.standin() as here:
        print(json.dumps({**main(), "launches": here.driver.launches(), "reasons": here.executor.reasons}))
else:
    print(json.dumps(main()))
"""


def run(folder, how="standin"):
    """The program in a separate process."""
    where = {
        "NBCOMPILE_CACHE_DIR": folder / "store", "NBCOMPILE_FRAMES_DIR": folder / "frames", "NBCOMPILE_WARM_START": "1",
        "TRITON_CACHE_DIR": folder / "triton",
    }  # fmt: skip
    (folder / "program.py").write_text(PROGRAM)
    return json.loads(python(folder / "program.py", folder, how, **where).splitlines()[-1])


def write(folder, edits=()):
    """Write the modules of the kernels."""
    for name, text in (("kernels", KERNELS), ("shifts", SHIFTS)):
        for edit in edits:
            text = text.replace(*edit)
        (folder / f"{name}.py").write_text(text)


def results(more: int = 0) -> list[list[float]]:
    """The results of the kernels, with the numbers of the edits."""
    x = torch.arange(100.0)
    twice = x + 5 + more
    twice[:50] += 5 + more
    expected = (x * (2 + more), x * (3 + more), x + 4 + more, twice, x * (6 + more))
    return [value.tolist() for value in expected]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that one process has filled."""
    folder = tmp_path_factory.mktemp("kernels")
    copy_libraries(folder / "store")
    write(folder)
    first = run(folder)
    assert first["results"] == results()
    assert first["reasons"] == []
    assert len(first["by_triton"]) >= 5
    assert not any("not kept" in text for text in first["stored"]), first["stored"]
    return folder, first


@pytest.mark.fast_path
def test_a_second_process_launches_without_compiling(store):
    """The second process traces, lowers and compiles nothing, with Triton neither, and imports no SymPy."""
    folder, first = store
    second = run(folder)
    assert second["results"] == results()
    assert all(cause.startswith("loaded") for cause in second["causes"]), second
    assert second["by_triton"] == []
    assert second["imported"] == []
    assert second["launches"] == first["launches"]


@pytest.mark.slow
def test_code_for_a_target_comes_from_the_store(store):
    """For a target, the graph is traced again, and the stored machine code is simulated."""
    found = run(store[0], "target")
    assert found["results"] == results()
    assert found["by_triton"] == []


@pytest.mark.slow  # make sweep: tests/capture/test_triton_kernels.py has each edit, in one process
@pytest.mark.fast_path
def test_an_edited_kernel_is_compiled_again(store):
    """An edit of the text, a global, a module's value, a called function or a heuristic recompiles the kernel."""
    folder, _ = store
    assert all(before in KERNELS + SHIFTS for before, _ in EDITS)
    write(folder, EDITS)
    third = run(folder)
    assert third["results"] == results(10)
    assert not any(cause.startswith("loaded") for cause in third["causes"]), third["causes"]
