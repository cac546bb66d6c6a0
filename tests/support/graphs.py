"""A backend for tests: it keeps the graphs that it is given, and runs them as they are.

    graphs = Graphs()
    nbcompile.compile(f, backend=graphs)(x)
    len(graphs), graphs.operators                1, ["sin mul"]

In torch: torch/_dynamo/testing.py (CompileCounterWithBackend). Read next: tests/support/watched.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch


class Graphs(Sequence[torch.fx.GraphModule]):
    """The modules of the graphs, in the order in which they were compiled."""

    def __init__(self) -> None:
        self.modules: list[torch.fx.GraphModule] = []

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
        """Keep a graph; what runs is the graph itself."""
        self.modules.append(module)
        return module.forward

    def __getitem__(self, index: Any) -> Any:
        return self.modules[index]

    def __len__(self) -> int:
        return len(self.modules)

    def clear(self) -> None:
        """Forget what was compiled so far."""
        self.modules.clear()

    @property
    def operators(self) -> list[str]:
        """For each graph the names of its operators, in order."""
        return [" ".join(operators(module.graph)) for module in self]


def operators(graph: torch.fx.Graph) -> list[str]:
    """The names of a graph's operators, in order, without reads of an item."""
    return [
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        for node in graph.nodes
        if node.op in ("call_function", "call_method", "call_module") and node.target is not operator.getitem
    ]
