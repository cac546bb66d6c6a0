"""A backend for tests: it stores the graphs that it gets, and runs them unchanged.

    graphs = Graphs()
    nbcompile.compile(f, backend=graphs)(x)
    len(graphs), graphs.operators                1, ["sin mul"]
    agrees(f, x, operators="sin mul")            one graph, whose result is eager's

In torch: torch/_dynamo/testing.py (CompileCounterWithBackend). Read next: tests/support/watched.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

import nbcompile


class Graphs(Sequence[torch.fx.GraphModule]):
    """The modules of the graphs, in the order in which they were compiled."""

    def __init__(self) -> None:
        self.modules: list[torch.fx.GraphModule] = []

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
        """Store a graph, which is the compiled function itself."""
        self.modules.append(module)
        return module.forward

    def __getitem__(self, index: Any) -> Any:
        return self.modules[index]

    def __len__(self) -> int:
        return len(self.modules)

    def clear(self) -> None:
        """Remove all stored graphs."""
        self.modules.clear()

    @property
    def operators(self) -> list[str]:
        """The names of each graph's operators, in order."""
        return [" ".join(operators(module.graph)) for module in self]


def operators(graph: torch.fx.Graph) -> list[str]:
    """The names of a graph's operators, in order, without reads of an item."""
    return [
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        for node in graph.nodes
        if node.op in ("call_function", "call_method", "call_module") and node.target is not operator.getitem
    ]


def compiled(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, list[str]]:
    """The result of a call, and the operators of each graph."""
    graphs = Graphs()
    return nbcompile.compile(function, backend=graphs, **options)(*arguments), graphs.operators


def agrees(function: Callable[..., Any], *arguments: Any, operators: str | None = None, **options: Any) -> None:
    """Assert one graph (of these operators, in order), and eager's result."""
    found, seen = compiled(function, *arguments, fullgraph=True, **options)
    torch.testing.assert_close(found, function(*arguments))
    assert operators is None or seen == [operators]


def captured(function: Callable[..., Any], *arguments: Any, expected: Any) -> torch.fx.GraphModule:
    """The only graph of a function with a known result: some operators cannot run outside of a graph."""
    graphs = Graphs()
    actual = nbcompile.compile(function, backend=graphs, fullgraph=True)(*arguments)
    torch.testing.assert_close(actual, expected)
    (module,) = graphs
    return module
