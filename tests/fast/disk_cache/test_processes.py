"""The store between real processes: modules that the second one does not import, and a damaged store."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.processes import command, python

PROGRAM = """
import json, sys, warnings
import torch, nbcompile
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
@nbcompile.compile
def f(x):
    y = net(x)
    print("between", file=sys.stderr)
    return torch.softmax(y, -1)
@nbcompile.compile
def of_any_size(x):
    return x * x.shape[0]
with warnings.catch_warnings(record=True) as told, torch.no_grad():
    result = f(torch.ones(2, 4))
    assert torch.allclose(result, torch.softmax(net(torch.ones(2, 4)), -1))
    for size in (3, 5, 7):
        assert torch.equal(of_any_size(torch.ones(size)), torch.ones(size) * size)
heavy = [name for name in ("torch._dynamo", "sympy", "nbcompile.driver", "nbcompile.tracing", "nbcompile.lowering") if name in sys.modules]
again = torch.compile(lambda d: d["x"] + 1, backend="eager")({"x": torch.ones(2)}) if len(sys.argv) > 1 else None
print(json.dumps([heavy, [str(each.message) for each in told]]))
"""


def run(folder, *arguments: str):
    """The heavy modules that the program imported in another process, and its warnings."""
    where = {"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_FRAMES_DIR": folder / "frames", "NBCOMPILE_WARM_START": "1"}
    told = command(sys.executable, "-c", PROGRAM, *arguments, **where)
    assert told.stderr.count("between") == 1
    return json.loads(told.stdout)


def printed(program: str, folder) -> str:
    """The output of a program in another process, with a store in a folder."""
    return python(program, NBCOMPILE_CACHE_DIR=folder, NBCOMPILE_WARM_START="1")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store that one process filled."""
    folder = tmp_path_factory.mktemp("store")
    heavy, _ = run(folder)
    assert "torch._dynamo" in heavy
    return folder


def test_a_warm_process_imports_no_compiler(store):
    """Graphs, a resume function and guards are loaded from the store; torch.compile still works."""
    assert run(store, "and torch.compile") == [[], []]


OPTIMISER = """
import sys
import torch, nbcompile
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(net.parameters())  # imports torch's compiler
before = set(sys.modules)
@nbcompile.compile
def step():
    optimizer.step()
def train():
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(3, 2)).sum().backward()
        step()
train()
print(*{"nbcompile.driver.stages", "nbcompile.tracing.tracer", "nbcompile.lowering"} & sys.modules.keys() - before)
"""


def test_a_warm_step_of_an_optimiser_imports_no_compiler(tmp_path):
    """Frames without a graph, such as the hooks of a step, are stored, too."""
    imported = [printed(OPTIMISER, tmp_path).split() for _ in range(2)]
    assert (len(imported[0]), imported[1]) == (3, [])


NOTHING_TO_COMPILE = """
import sys, warnings
import torch, nbcompile
warnings.simplefilter("error")
@nbcompile.compile
def same(x, y):
    return x
@nbcompile.compile
def first_of(pair, flag):
    return pair[0] if flag else pair[1]
x, y = torch.ones(2), torch.zeros(3)
assert same(x, y) is x and same(y, x) is y
assert first_of((x, y), True) is x and first_of([y, x], False) is x
print(*{"nbcompile.driver", "nbcompile.tracing.tracer", "nbcompile.lowering"} & sys.modules.keys())
"""


def test_a_frame_of_tensors_with_nothing_to_compile_is_skipped_without_a_trace(tmp_path):
    """A frame that only passes tensors on is skipped, without a warning, and returns the objects themselves."""
    imported = [printed(NOTHING_TO_COMPILE, tmp_path).split() for _ in range(2)]
    assert (len(imported[0]), imported[1]) == (3, [])


BUILTINS = """
import torch, nbcompile
from nbcompile.record.recorder import Recorder
def f(*given):
    pairs = [x * at for at, x in enumerate(given)]
    return tuple(map(torch.sin, pairs)), sum(p for p in pairs)
recorder = Recorder("f")
with recorder.listening():
    found = nbcompile.compile(f)(torch.ones(2), torch.ones(2))
torch.testing.assert_close(found, f(torch.ones(2), torch.ones(2)))
print(recorder.frames[0].cause)
"""


def test_a_program_that_counts_and_maps_is_loaded(tmp_path):
    """``enumerate``, ``map`` and ``sum`` are polyfills, whose modules the second process has not imported."""
    assert [printed(BUILTINS, tmp_path).split()[0] for _ in range(2)] == ["first", "loaded"]
