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
    """In another process, without the fault, its assertion holds; the same lines with the fault fail."""
    faults.swapped(aten.exp.default, aten.cos.default)(monkeypatch)
    found = minify(long)(torch.randn(16, 24))
    found.save(str(tmp_path / "small.py"))
    python(tmp_path / "small.py", folder=ROOT, NBCOMPILE_FRAMES_DIR=None)
    with pytest.raises(AssertionError, match="not close"):
        exec(compile(found.script, str(tmp_path / "small.py"), "exec"), {"__name__": "small"})


def test_a_crash_in_the_compiler(monkeypatch):
    """A lowering that raises is what remains; the program survives it, and it is a failure all the same."""
    faults.raising(aten.exp.default)(monkeypatch)
    found = minify(long)(torch.randn(4, 24))
    assert found.nodes[1] == 1
    assert "internal failure" in found.difference


def test_a_backend_of_ones_own():
    """What is minified is the graph that the given backend fails on."""

    def backend(graph, inputs):
        if any(node.target is torch.sigmoid for node in graph.graph.nodes):
            raise ValueError("no sigmoid here")
        return graph.forward

    found = minify(lambda x: torch.sigmoid(x.sin()).cos() + 1, backend=backend)(torch.randn(5))
    assert found.nodes[1] == 1
    assert "sigmoid" in str(found)


def test_nothing_to_minify():
    """A function whose graphs are right; a predicate that never holds, and one that holds every other time."""
    answers = iter(["wrong", "", "wrong", "", "wrong", ""])
    with pytest.raises(NothingToMinify):
        minify(faults.chain)(torch.randn(3, 4))
    with pytest.raises(NothingToMinify):
        minify(faults.chain, predicate=lambda _: "")(torch.randn(3, 4))
    with pytest.raises(FlakyPredicateError):
        minify(faults.chain, predicate=lambda _: next(answers))(torch.randn(3, 4))


def test_a_predicate_that_changes_its_mind_later_is_reported():
    """One that holds for the first two trials and by chance from then on accepts any cut: the result is tried again."""
    answers = itertools.chain(["wrong"] * 2, itertools.cycle(["", "wrong"]))
    with pytest.raises(FlakyPredicateError):
        minify(faults.chain, predicate=lambda _: next(answers))(torch.randn(3, 4))


def test_lowerings_are_back():
    """No fault of an earlier test is left."""
    assert LOWERINGS[aten.exp.default] is not LOWERINGS[aten.cos.default]
