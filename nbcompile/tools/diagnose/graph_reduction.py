"""Reduction of a graph in steps, each of which keeps a property: fewer outputs, fewer nodes, smaller inputs.

    relu(sin(x) + y), and the error is in sin   ->   sin(x)

In torch: torch/_functorch/fx_minifier.py. Read next: nbcompile/tools/diagnose/minify.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import backends
from nbcompile.tools.diagnose import outcome, reproducer
from nbcompile.tools.diagnose.outcome import FlakyPredicateError

GraphPredicate = Callable[[torch.fx.GraphModule, Sequence[Any]], str]
"""A function that describes the error of a graph with its inputs; "" if there is none."""


MOST_ROUNDS = 50


CONFIRMATIONS = 4
"""Number of runs that confirm the result: a predicate that holds half of the time passes once in 16 times."""


@dataclass(frozen=True, slots=True)
class MinifiedGraph:
    """The smallest graph that was found."""

    difference: str
    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    nodes: tuple[int, int]
    """Number of operators before and after."""
    trials: int
    script: str
    """A complete program that fails."""

    def __str__(self) -> str:
        return self.script

    def save(self, path: str) -> None:
        """Write the program."""
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path of the user's
            file.write(self.script)


class GraphReduction:
    """A graph that is wrong, which each accepted cut makes smaller."""

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], wrong: GraphPredicate) -> None:
        self.graph, self.inputs, self.wrong = graph, list(inputs), wrong
        self.before = self.operators()
        self.trials = 2

    def operators(self) -> int:
        return sum(node.op.startswith("call") for node in self.graph.graph.nodes)

    def run(self, backend: str | Callable[..., Any], engine: str) -> MinifiedGraph:
        """Repeat the reductions as long as something becomes smaller."""
        for _ in range(MOST_ROUNDS):
            size = self._size()
            # The cuts that may remove most come first. any() stops at the first cut that is still wrong; the
            # candidates are then collected anew, from the smaller graph.
            for candidates in (self._earlier_ends, self._fewer_results, self._operators_as_inputs):
                while any(self._take(*candidate) for candidate in candidates()):
                    pass
            if self._size() == size:
                break
        while any(self._take(self.graph, inputs) for inputs in self._halved()):
            pass
        difference = self._confirmed()
        script = reproducer.write(self.graph, self.inputs, backends.backend_name(backend), engine, difference)
        counts = (self.before, self.operators())
        return MinifiedGraph(difference, self.graph, tuple(self.inputs), counts, self.trials, script)

    def _confirmed(self) -> str:
        """The error of the result, confirmed by more runs: a predicate that holds by chance accepts any cut."""
        for _ in range(CONFIRMATIONS):
            if not (difference := self.wrong(self.graph, self.inputs)):
                raise FlakyPredicateError("the smallest graph was wrong once and right once: it was not reduced")
        return difference

    def _size(self) -> tuple[int, int]:
        return self.operators(), len(list(self.graph.graph.nodes))

    def _take(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> bool:
        """Continue with a smaller graph, if it is still wrong."""
        graph, inputs = _without_unused(graph, inputs)
        self.trials += 1
        try:
            wrong = self.wrong(graph, inputs)
        except Exception:  # noqa: BLE001 - this part cannot be compared
            return False
        if wrong:
            self.graph, self.inputs = graph, inputs
        return bool(wrong)

    def _earlier_ends(self) -> Iterator[tuple[torch.fx.GraphModule, list[Any]]]:
        """The graph up to one of its operators, the earliest first by halves."""
        names = [node.name for node in self.graph.graph.nodes if node.op.startswith("call")]
        for name in _by_halves(names[:-1]):
            graph = copy.deepcopy(self.graph)
            by_name = {node.name: node for node in graph.graph.nodes}
            graph.graph.output_node().args = ((by_name[name],),)
            yield graph, self.inputs

    def _fewer_results(self) -> Iterator[tuple[torch.fx.GraphModule, list[Any]]]:
        (results,) = self.graph.graph.output_node().args
        flat = results if isinstance(results, (tuple, list)) else (results,)
        for position in range(len(flat) if len(flat) > 1 else 0):
            graph = copy.deepcopy(self.graph)
            own: Any = graph.graph.output_node().args[0]
            graph.graph.output_node().args = ((*own[:position], *own[position + 1 :]),)
            yield graph, self.inputs

    def _operators_as_inputs(self) -> Iterator[tuple[torch.fx.GraphModule, list[Any]]]:
        """Chunks of operators replaced by their values, from halves down to single operators."""
        values = _values(self.graph, self.inputs)
        names = [name for name, value in values.items() if isinstance(value, torch.Tensor)]
        size = len(names)
        while size >= 1:
            # A value instead of an operator disconnects everything before it, which is then removed
            # as dead code.
            for first in range(0, len(names), size):
                yield self._with_inputs(names[first : first + size], values)
            size //= 2

    def _with_inputs(self, names: Sequence[str], values: Mapping[str, Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
        graph, inputs = copy.deepcopy(self.graph), list(self.inputs)
        by_name = {node.name: node for node in graph.graph.nodes}
        for name in names:
            replace_by_input(graph, by_name[name])
            inputs.append(values[name])
        graph.recompile()
        return graph, inputs

    def _halved(self) -> Iterator[list[Any]]:
        """Inputs of half the size, for one size at a time: all dims of this size are halved."""
        sizes = {size for value in self.inputs if isinstance(value, torch.Tensor) for size in value.shape if size > 1}
        for size in sorted(sizes, reverse=True):
            # All dims of this size at once: they mostly depend on each other, as in the factors of a matrix product.
            yield [_narrowed(value, size) for value in self.inputs]


def _by_halves(names: Sequence[str]) -> Iterator[str]:
    #     8 operators    4, 2, 1, 0 (the graph ends after it), then all others from the front
    at = len(names) // 2
    seen: set[int] = set()
    while names and at not in seen:
        seen.add(at)
        yield names[at]
        at //= 2
    yield from (name for number, name in enumerate(names) if number not in seen)


def _narrowed(value: Any, size: int) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    for dim, own in enumerate(value.shape):
        if own == size:
            value = value.detach().narrow(dim, 0, size // 2).contiguous().requires_grad_(value.requires_grad)
    return value


def _values(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[str, Any]:
    """The value of each operator of a graph."""
    found: dict[str, Any] = {}

    class Keeper(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            value = super().run_node(node)
            if node.op.startswith("call"):
                found[node.name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
            return value

    Keeper(graph).run(*outcome.copied(list(inputs)))
    return found


def replace_by_input(graph: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Replace a node by a new last input."""
    last = list(graph.graph.find_nodes(op="placeholder"))
    with graph.graph.inserting_after(last[-1]) if last else graph.graph.inserting_before():
        placeholder = graph.graph.placeholder(f"{node.name}_value")
    placeholder.meta = dict(node.meta)
    node.replace_all_uses_with(placeholder)
    graph.graph.erase_node(node)


def _without_unused(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Drop operators and inputs without users; operators that write stay."""
    graph = copy.deepcopy(graph)
    graph.graph.eliminate_dead_code()
    kept = []
    for node, value in zip(list(graph.graph.find_nodes(op="placeholder")), inputs, strict=True):
        if node.users:
            kept.append(value)
        else:
            graph.graph.erase_node(node)
    graph.graph.lint()
    graph.recompile()
    return graph, kept
