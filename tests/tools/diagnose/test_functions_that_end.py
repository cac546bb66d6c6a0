"""``ablate``, ``bisect`` and ``minify`` as functions survive faults that end the process, or never end."""

from __future__ import annotations

import os
import time

import nbformat
import pytest
import torch

from nbcompile.lowering.registry import LOWERINGS
from nbcompile.tools import tour
from nbcompile.tools.diagnose.ablate import ablate
from nbcompile.tools.diagnose.bisect import bisect
from nbcompile.tools.diagnose.minify import NothingToMinify, minify

pytestmark = [pytest.mark.timeout(900), pytest.mark.rotates(2)]
EXP = torch.ops.aten.exp.default
SECONDS = 60.0


def chain(x):
    return ((x.sin() + 1).relu() * 2).exp().sum(-1)


ENDINGS = [
    (lambda: os.kill(os.getpid(), 11), "killed by signal 11"),
    (lambda: os._exit(0), "left the process with exit code 0"),
    (os.abort, "killed by signal 6"),
]


@pytest.mark.parametrize(("end", "says"), ENDINGS, ids=["segfault", "exit", "abort"])
def test_a_lowering_that_ends_the_process(monkeypatch, end, says):
    """The ladder changes at lowering, bisection names the operator, and minify reduces the graph to it."""
    monkeypatch.setitem(LOWERINGS, EXP, lambda *_, **__: end())
    x = torch.randn(4, 8)
    first = ablate(chain, seconds=SECONDS)(x).first_change
    assert (first.rung, first.difference) == ("no fusion", says)
    found = bisect(chain, seconds=SECONDS)(x)
    assert found.difference == says
    assert "exp" in found.culprit.decision, str(found)
    small = minify(chain, seconds=SECONDS)(x)
    assert (small.nodes[1], small.difference) == (1, says)
    assert "exp" in small.script


def test_a_lowering_that_does_not_end(monkeypatch):
    """The run is stopped at the limit; eager mode is tried first, and is not blamed."""
    monkeypatch.setitem(LOWERINGS, EXP, lambda *_, **__: time.sleep(999))
    found = minify(lambda x: x.exp(), seconds=4.0)(torch.randn(3))
    assert (found.nodes[1], found.difference) == (1, "did not end in time (4 seconds)")


def test_a_function_that_ends_the_process_by_itself():
    """If eager mode ends the process, the error says so, and no graph is blamed."""
    with pytest.raises(ValueError, match="in eager mode, the function left the process with exit code 5"):
        ablate(lambda x: os._exit(5))(torch.ones(2))
    with pytest.raises(ValueError, match="in eager mode, the function is killed by signal 6"):
        bisect(lambda x: os.abort())(torch.ones(2))
    with pytest.raises(NothingToMinify, match="killed by signal 6"):
        minify(lambda x: os.abort())(torch.ones(2))
    with pytest.raises(ValueError, match="did not end in time"):
        ablate(lambda x: time.sleep(999), seconds=1.0)(torch.ones(2))


def test_a_predicate_that_ends_the_process():
    """A predicate that ends the process runs in forks from then on, and the end is its answer."""

    def predicate(seen):
        return os.abort() if float(seen.values[0].max()) > 2 else ""

    found = bisect(lambda x: x.exp() + 1, predicate=predicate, seconds=SECONDS)(torch.ones(3))
    assert found.difference == "killed by signal 6"


def test_a_function_that_raises_system_exit():
    """SystemExit is an exception like others: both modes raise it, and nothing differs."""

    def leaves(x):
        raise SystemExit(3)

    assert ablate(leaves)(torch.ones(2)).first_change is None


CELLS = (
    """import os, time, torch, nbcompile
from nbcompile.lowering.registry import LOWERINGS
from nbcompile.tools import tour
def crash(*arguments, **keywords):
    os.kill(os.getpid(), 11)
LOWERINGS[torch.ops.aten.exp.default] = crash
def f(x):
    return (x.sin() + 1).exp()
f(torch.randn(1000, 1000, requires_grad=True)).sum().backward()  # its threads are not in a fork
x = torch.randn(4, 8)""",
    "print(nbcompile.ablate(f)(x).first_change.difference)",
    "print(nbcompile.bisect(f)(x).culprit)",
    "print(nbcompile.minify(f)(x).nodes)",
    "print('alive')",
)


@pytest.mark.compiles
def test_in_a_kernel():
    """In a kernel, each cell has its answer and the kernel survives."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    tour.run_cells(notebook, timeout=600)
    texts = ["".join(output.get("text", str(output)) for output in cell.outputs) for cell in notebook.cells]
    assert texts[0] == ""
    assert texts[1] == "killed by signal 11\n"
    assert texts[2].startswith("lowering")
    assert "exp (aten.exp.default)" in texts[2]
    assert texts[3:] == ["(3, 1)\n", "alive\n"]
