"""The minifier: the smallest graph with a planted fault, as a program that runs alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from nbcompile.lowering.registry import LOWERINGS
from nbcompile.tools.diagnose.minify import FlakyPredicateError, NothingToMinify, minify
from tests.support.processes import python
from tests.tools.diagnose import faults

aten = torch.ops.aten
ROOT = Path(__file__).parents[3]
weight = torch.randn(24, 24)


def long(x):
    y = (x @ weight).sin().relu()
    for factor in range(6):
        y = (y * (factor + 1)).tanh() + y
    print(end="")
    z = (y * 2).exp().sum(-1)
    for factor in range(6):
        z = (z * (factor + 1)).tanh() + z
    return z, x + 1


def test_the_program_runs_alone(monkeypatch, tmp_path):
    """The program passes in another process without the fault, and fails with it."""
    faults.swapped(aten.exp.default, aten.cos.default)(monkeypatch)
    found = minify(long)(torch.randn(16, 24))
    found.save(str(tmp_path / "small.py"))
    python(tmp_path / "small.py", folder=ROOT, NBCOMPILE_FRAMES_DIR=None)
    with pytest.raises(AssertionError, match="not close"):
        exec(compile(found.script, str(tmp_path / "small.py"), "exec"), {"__name__": "small"})


def test_a_crash_in_the_compiler(monkeypatch):
    """A lowering that raises is the result; the program is a failure, too."""
    faults.raising(aten.exp.default)(monkeypatch)
    found = minify(long)(torch.randn(4, 24))
    assert found.nodes[1] == 1
    assert "internal failure" in found.difference


def test_a_backend_of_ones_own():
    """The result is a graph on which the given backend fails."""

    def backend(graph, inputs):
        if any(node.target is torch.sigmoid for node in graph.graph.nodes):
            raise ValueError("no sigmoid here")
        return graph.forward

    found = minify(lambda x: torch.sigmoid(x.sin()).cos() + 1, backend=backend)(torch.randn(5))
    assert found.nodes[1] == 1
    assert "sigmoid" in str(found)


def test_nothing_to_minify():
    """Right graphs, a predicate that is never true, and one that alternates, raise errors."""
    answers = iter(["wrong", "", "wrong", "", "wrong", ""])
    with pytest.raises(NothingToMinify):
        minify(faults.chain)(torch.randn(3, 4))
    with pytest.raises(NothingToMinify):
        minify(faults.chain, predicate=lambda _: "")(torch.randn(3, 4))
    with pytest.raises(FlakyPredicateError):
        minify(faults.chain, predicate=lambda _: next(answers))(torch.randn(3, 4))


def test_a_predicate_that_changes_its_mind_later_is_reported():
    """A predicate that becomes flaky after two trials is reported, because the result is tried again."""
    answers = itertools.chain(["wrong"] * 2, itertools.cycle(["", "wrong"]))
    with pytest.raises(FlakyPredicateError):
        minify(faults.chain, predicate=lambda _: next(answers))(torch.randn(3, 4))


def test_lowerings_are_back():
    """All lowerings are restored after the tests."""
    assert LOWERINGS[aten.exp.default] is not LOWERINGS[aten.cos.default]
