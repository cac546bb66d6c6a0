"""Tests of the harness: the errors of a wrong compiler are reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from nbcompile.peer.observe import observe
from tests.peer import harness
from tests.peer.describe import describe, operators, wiring
from tests.peer.program import Settings, programs

pytestmark = pytest.mark.peer


class Wrong:
    """Eager mode with one error in each result."""

    name = "wrong"

    def __init__(self, mistake: Callable[[Any], Any]) -> None:
        self.mistake = mistake

    def fresh(self) -> None:
        """Do nothing: there is no cache."""

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Return the function with the error."""
        return lambda *arguments: self.mistake(function(*arguments))

    def compile_id(self) -> str:
        """Return "": no frame is compiled."""
        return ""

    @contextlib.contextmanager
    def watched(self, settings: Settings, seen: harness.Observation) -> Iterator[None]:
        """Do nothing: there are no graph breaks and recompiles."""
        yield


def found(name: str, mistake: Callable[[Any], Any]) -> list[str]:
    """The paths at which a wrong compiler differs from eager mode."""
    seen = harness.run(programs()[name], Wrong(mistake))
    return [each.where for each in harness.same_results(seen, name)]


def raising(value: object) -> object:
    raise ValueError("a mistake")


def test_eager_agrees_with_itself() -> None:
    """Two runs of one program have the same description: no random or stored state of one run reaches the next."""
    assert found("random_numbers", lambda value: value) == []
    assert found("list_argument_is_appended_to", lambda value: value) == []


@pytest.mark.parametrize(
    "mistake",
    [
        lambda value: value + 1e-6,
        lambda value: value.double(),
        lambda value: value.tolist(),
        lambda value: value.requires_grad_(),
        raising,
        lambda value: print("hello") or value,
        lambda value: torch.rand(1) * 0 + value,
        lambda value: (torch.set_grad_enabled(False), value)[1],
    ],
    ids=["value", "dtype", "type", "requires_grad", "exception", "printed", "random state", "grad mode"],
)
def test_each_mistake_is_seen(mistake: Callable[[Any], Any]) -> None:
    """A wrong value, dtype, type, exception, output or process-wide state is a difference."""
    assert found("functions_in_a_row", mistake)


def test_torch_compile_is_seen_as_documented() -> None:
    """The nested graph break of the documentation has six graphs of one operator, and three reported breaks."""
    seen = harness.observed("nested_breaks", "torch.compile")
    assert [graph.operators for graph in seen.graphs] == [("_operator.add",)] * 6
    assert seen.breaks == ["Call to `torch._dynamo.graph_break()` at breaks.py:24"] * 3
    assert seen.calls[1].captured == [] and seen.calls[1].executed == [0, 1, 2, 3, 4, 5]


def test_recompiles_are_seen_with_their_reason() -> None:
    """The reason of a recompilation has the words of torch's log."""
    seen = harness.observed("new_shape_recompiles_once_and_is_dynamic", "torch.compile")
    assert seen.recompiles == [("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4",)]
    assert [graph.recompiled for graph in seen.graphs] == [False, True]


def test_side_by_side_names_the_three_compilers() -> None:
    """The script prints one column for each compiler."""
    text = harness.columns("functions_in_a_row", ("eager", "torch.compile"))
    assert "eager" in text.splitlines()[0] and "torch.compile" in text.splitlines()[0]
    assert "new graph 0/0: sin, cos, add, relu" in text


def test_descriptions_have_identity_and_shared_memory() -> None:
    """A description distinguishes the same object and a tensor's view from equal copies."""
    x = torch.ones(2)
    lines = describe(result=[x, x, x.view(2, 1), x.clone()])
    assert lines["result[1]"] == "is result[0]"
    assert lines["result[2]"].endswith("in the memory of result[0]")
    assert "memory" not in lines["result[3]"]


def test_cycles_end() -> None:
    """A list that contains itself is described once."""
    xs: list[object] = [1]
    xs.append(xs)
    assert describe(result=xs) == {"result": "list of 2", "result[0]": "1", "result[1]": "is result"}


def test_wiring_is_independent_of_names() -> None:
    """Two graphs that differ only in the names of nodes have the same wiring; swapped arguments change it."""

    def graph(prefix: str, swapped: bool = False) -> torch.fx.Graph:
        made = torch.fx.Graph()
        x, y = made.placeholder(prefix + "x"), made.placeholder(prefix + "y")
        made.output(made.call_function(torch.sub, (y, x) if swapped else (x, y)))
        return made

    assert wiring(graph("a")) == wiring(graph("b")) != wiring(graph("a", swapped=True))
    assert operators(graph("a")) == ("torch.sub",)


def test_peer_record_holds_graphs_breaks_and_reasons() -> None:
    """The record of the real torch.compile has the same form as nbcompile's: frames, graphs, graph breaks."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    record, result = observe(f)(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 4.0))  # type: ignore[arg-type]
    assert [frame.id for frame in record.frames] == ["0/0", "1/0"]
    assert [each.title for each in record.frames[0].breaks] == ["Call to `torch._dynamo.graph_break()`"]
    graph = record.frames[1].graph
    assert graph is not None and [node.target for node in graph.nodes if node.op == "call_function"] == [
        "_operator.mul"
    ]
