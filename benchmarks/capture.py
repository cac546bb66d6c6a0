"""What capturing real models costs: graphs, call nodes, seconds, and the error against eager.

A process captures all models with one compiler, after a small network that pays
for its imports; the peer does the same in a sister process. The clock stands
still while the backend (which only counts) or a graph is running:

    call ─── tracing ─── │ backend │ ─ guards, program ─ │ graph │ ─ return
         to the graph                 to the first run

Read next: benchmarks/__main__.py
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

from benchmarks import models, timing


@dataclasses.dataclass(slots=True)
class Counting:
    """A backend that runs graphs as they are, and the clock of what happens outside of it."""

    now: Callable[[], float]
    graphs: list[collections.Counter[str]] = dataclasses.field(default_factory=list)
    to_graph: float = 0.0
    in_all: float = 0.0
    mark: float = 0.0

    def __call__(self, module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        passed = self.now() - self.mark
        self.to_graph += passed
        self.in_all += passed
        self.graphs.append(
            collections.Counter(_name(each) for each in module.graph.nodes if each.op.startswith("call"))
        )

        def run(*inputs: Any) -> Any:
            self.in_all += self.now() - self.mark
            result = module.forward(*inputs)
            self.mark = self.now()
            return result

        self.mark = self.now()
        return run


def _name(node: torch.fx.Node) -> str:
    target = node.target
    return str(target) if isinstance(target, str) else str(getattr(target, "__name__", target))


def capture(compiler: str, model: models.Model, *, learning: bool) -> dict[str, Any]:
    """Capture one model: what was counted, and the error."""
    module, inputs = models.make(model)
    found = Counting(timing.clock())
    with torch.set_grad_enabled(learning):
        torch.manual_seed(0)
        expected = module(**inputs)
        call = importlib.import_module(compiler).compile(module, backend=found)
        torch.manual_seed(0)
        found.mark = found.now()
        result = call(**inputs)
        found.in_all += found.now() - found.mark
    error = models.relative_error(result, expected)
    if learning:
        gradients = [models.gradients(module, each) for each in (result, expected)]
        error = max(error, models.relative_error(*gradients))
    nodes = sum(found.graphs, collections.Counter())
    return {
        "graphs": len(found.graphs), "nodes": nodes, "to graph": found.to_graph, "in all": found.in_all, "error": error,
    }  # fmt: skip


def forget(compiler: str) -> None:
    """Drop what was compiled: one model's entries are no burden of the next."""
    torch._dynamo.reset() if compiler == "torch" else importlib.import_module(compiler).reset()


def warm_up(compiler: str) -> None:
    """A small network, captured: the compiler is imported, torch's own caches are as they are in a live process."""
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
    importlib.import_module(compiler).compile(network, backend=Counting(timing.clock()))(torch.ones(2, 4))
    forget(compiler)
