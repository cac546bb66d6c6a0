"""Graphs of a whole program: which are collected, with which inputs, and how the child ended."""

from __future__ import annotations

import json
import sys
import types

import pytest
import torch

import nbcompile
from nbcompile.tools import child_process
from nbcompile.tools.diagnose import minify, script_graphs
from nbcompile.tools.diagnose.outcome import FlakyPredicateError
from nbcompile.tools.diagnose.script import Script

pytestmark = pytest.mark.usefixtures("nothing_compiled")
PROGRAM = """
import sys
import torch
import nbcompile

@nbcompile.compile(backend="inductor", mode="default")
def first(x):
    x = x * 2
    return x.sin()

@torch.compile
def second(x):
    x.add_(1)
    return x.cos()

given = torch.ones(3)
for _ in range(2):
    second(given)
assert given.tolist() == [3.0] * 3 and sys.argv[1:] == ["--flag"]
first(torch.zeros(2))
raise SystemExit(4)
"""


@pytest.fixture
def graphs(tmp_path, monkeypatch):
    """The graphs of a program; compilers and arguments are restored."""
    for package in (torch, nbcompile):
        monkeypatch.setattr(package, "compile", package.compile)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def graphs(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return script_graphs._graphs(path, ["--flag"])

    return graphs


def test_each_graph_has_the_inputs_of_its_first_call(graphs):
    """Both compilers' names collect graphs, for any backend, with the inputs as before the first call."""
    (second, given), (first, others) = graphs(PROGRAM)
    names = [[node.name for node in graph.graph.nodes if node.op.startswith("call")] for graph in (second, first)]
    assert names[0][-1] == "cos" and names[1][-1] == "sin"
    assert [value.tolist() for value in given] == [[1.0] * 3]
    assert [value.tolist() for value in others] == [[0.0] * 2]


def test_a_program_that_fails_has_the_graphs_from_before(graphs):
    """An exception of the program ends it, and not the search."""
    text = "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(1))\nraise ValueError\n"
    assert len(graphs(text)) == 1
    assert graphs("import torch\n") == []


@pytest.mark.parametrize(("code", "errors", "expected"), [
    (child_process.HUNG, "", "it did not end in time"),
    (script_graphs.TOO_LONG, "", "it did not end in time"),
    (-11, "", "killed by signal 11"),
    (0, "", "by os._exit, which leaves no time for it"),
    (3, "", "exit code 3"),
    (1, "Traceback (most recent call last):\n  File\nValueError: wrong\n", "exit code 1: ValueError: wrong"),
])  # fmt: skip
def test_the_end_of_the_child_in_words(code, errors, expected):
    """A signal, a time limit and an exception have a text."""
    assert script_graphs._ending(types.SimpleNamespace(code=code, errors=errors)) == expected


def smallest(monkeypatch, *, result=None, candidate=None, code=-11):
    """The outcome of a child that wrote these files and had this exit code."""
    ordered = {}

    def run(command, seconds, environment, given):
        ordered.update(json.loads(command[3]))
        folder = script_graphs.Path(ordered["folder"])
        if result is not None:
            (folder / script_graphs.RESULT).write_text(json.dumps(result))
        if candidate is not None:
            (folder / script_graphs.CANDIDATE).write_text(candidate)
        return types.SimpleNamespace(code=code, errors="")

    monkeypatch.setattr(child_process, "run", run)
    found = script_graphs.smallest(Script(script_graphs.Path("program.py")), with_values=False)
    assert ordered["with_values"] is False and ordered["engine"] == "nbcompile"
    return found


def test_the_result_of_the_child(monkeypatch):
    """The result has the smallest graph as a program, and its number of operators."""
    result = {"difference": "values differ", "script": "import torch", "nodes": [57, 1], "graphs": 3}
    found = smallest(monkeypatch, result=result)
    assert (found.difference, found.script, found.nodes, found.graphs) == ("values differ", "import torch", (57, 1), 3)


def test_of_a_child_that_was_killed_the_graph_that_was_tried_is_left(monkeypatch):
    """If the child was killed, the last candidate is the result, with a comment about the end."""
    found = smallest(monkeypatch, candidate="the candidate\n")
    assert found.difference == "killed by signal 11"
    assert found.script == "# killed by signal 11\nthe candidate\n"


def test_what_ends_without_a_graph_is_an_error(monkeypatch):
    """A child that ends before a graph, without a wrong graph, or with a flaky one, is an error."""
    with pytest.raises(RuntimeError, match="before a graph was tried: killed by signal 11"):
        smallest(monkeypatch)
    with pytest.raises(minify.NothingToMinify, match="none of 2 graphs is wrong by itself"):
        smallest(monkeypatch, result={"script": "", "graphs": 2})
    with pytest.raises(FlakyPredicateError):
        smallest(monkeypatch, result={"flaky": "now and then"})


def test_the_first_wrong_graph_is_made_small(monkeypatch, tmp_path):
    """The first wrong graph is reduced; the last candidate is on disk."""

    def graph_of(function):
        return torch.fx.symbolic_trace(function), [torch.ones(2)]

    def wrong(graph, inputs):
        return "cosines are wrong" if any(node.target == "cos" for node in graph.graph.nodes) else ""

    monkeypatch.setattr(minify, "graph_predicate", lambda *_: wrong)
    monkeypatch.setattr(script_graphs.isolated, "ending", lambda call, seconds: "")
    graphs = [graph_of(lambda x: (x.sin(),)), graph_of(lambda x: ((x * 2).cos() + 1,))]
    order = {"engine": "nbcompile", "with_values": True, "seconds": 5.0}
    found = script_graphs._first_wrong(graphs, tmp_path, order)
    assert found["difference"] == "cosines are wrong" and found["nodes"][1] < found["nodes"][0]
    assert ".cos(" in found["script"] and (tmp_path / script_graphs.CANDIDATE).read_text() == found["script"]
    assert script_graphs._first_wrong(graphs[:1], tmp_path, order) == {"script": ""}
