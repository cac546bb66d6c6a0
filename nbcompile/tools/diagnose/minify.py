"""The smallest graph and inputs with which something is still wrong, as a file that runs alone.

    smallest = nbcompile.minify(f)(x)
    print(smallest)                    a program: the graph, its inputs by seed, both results, an assertion
    smallest.nodes                     operators before and after: (57, 1)

The captured graph is cut as long as the predicate holds: results are left out; the graph ends earlier; operators become
inputs, in halves, quarters, ... (delta debugging); inputs that nobody reads go. In the end, sizes are halved.

In torch: torch/_functorch/fx_minifier.py. Read next: nbcompile/tools/diagnose/reproducer.py
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import api, backends, config
from nbcompile.backends.run_aten import attribute_of
from nbcompile.tools.diagnose import isolated, outcome, reproducer
from nbcompile.tools.diagnose.outcome import FlakyPredicateError, Outcome

GraphPredicate = Callable[[torch.fx.GraphModule, Sequence[Any]], str]
"""A function that describes the error of a graph with its inputs; "" if there is none."""
MOST_ROUNDS = 50
CONFIRMATIONS = 4
"""Number of times that the result is tried: a predicate that holds half of the time gets through one time in 16."""


class NothingToMinify(ValueError):
    """The predicate holds for no captured graph."""


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
    """A program that runs alone, and fails."""

    def __str__(self) -> str:
        return self.script

    def save(self, path: str) -> None:
        """Write the program."""
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path of the user's
            file.write(self.script)


def minify(
    function: Callable[..., Any],
    *,
    backend: str | Callable[..., Any] = "inductor",
    predicate: Callable[[Outcome], str] | None = None,
    engine: str = "nbcompile",
    seconds: float = isolated.SECONDS,
    **options: Any,
) -> Callable[..., MinifiedGraph]:
    """Find the smallest part of a function's graphs that is still wrong.

    Of a graph that ends the process, or does not end, each part is tried in a fork.

    Args:
        function: a function or module that is not compiled yet.
        backend: what compiles the graphs.
        predicate: what is wrong with an :class:`Outcome` (its values, its exception, the ``seconds`` of a call), in
            words, or ""; without one, a difference from eager mode that rounding does not explain, an exception of
            the compiler, or a failure inside it.
        engine: ``"nbcompile"``, or ``"torch"`` for the real torch.compile.
        seconds: limit of a trial.
        **options: of ``compile`` (``dynamic``, ``fullgraph``).

    Returns:
        A function with the same arguments that returns a :class:`MinifiedGraph`. It raises :class:`NothingToMinify` if
        no graph is wrong, or if the function ends the process before a graph is compiled.
    """
    if engine not in ("nbcompile", "torch"):
        raise ValueError(f"engine: expected one of nbcompile, torch, got {engine!r}")

    def minified(*arguments: Any, **keywords: Any) -> MinifiedGraph:
        usual = graph_predicate(backend, predicate, engine)
        if ended := isolated.ending(lambda: captured(function, options, arguments, keywords), seconds):
            raise NothingToMinify(f"with graphs that run as captured, it is the same: {ended}")
        for graph, inputs in captured(function, options, arguments, keywords):
            ends = isolated.ending(functools.partial(usual, graph, inputs), seconds)
            wrong = ends_in_fork(usual, seconds) if ends else usual
            if found := _minified(graph, inputs, wrong, backend, engine):
                return found
        raise NothingToMinify("no captured graph is wrong by itself: see nbcompile.bisect, frame by frame")

    return minified


def ends_in_fork(wrong: GraphPredicate, seconds: float) -> GraphPredicate:
    """The predicate for a graph at which the process ends, or goes on for ever: that it does so in a fork."""

    def ends(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
        return isolated.ending(lambda: wrong(graph, inputs), seconds)

    return ends


def minify_graph(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: str | Callable[..., Any] = "inductor",
    engine: str = "nbcompile",
    wrong: GraphPredicate | None = None,
) -> MinifiedGraph:
    """Find the smallest part of one graph that is still wrong: for which a predicate holds, or the usual one.

    Raises:
        NothingToMinify: the graph is not wrong.
    """
    found = _minified(graph, inputs, wrong or graph_predicate(backend, None, engine), backend, engine)
    if found is None:
        raise NothingToMinify("the graph is not wrong")
    return found


def _minified(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    wrong: GraphPredicate,
    backend: str | Callable[..., Any],
    engine: str,
) -> MinifiedGraph | None:
    if not wrong(graph, inputs):
        return None
    if not wrong(graph, inputs):
        raise FlakyPredicateError("the same graph was wrong once and right once: it cannot be made small")
    return _GraphReduction(graph, inputs, wrong).run(backend, engine)


def captured(
    function: Callable[..., Any], options: Mapping[str, Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The graphs of a call with the inputs that each is called with; constants of a graph become inputs."""
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def keep(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        own = copy.deepcopy(graph)

        def call(*inputs: Any) -> Any:
            found.append(without_attributes(own, list(outcome.copied(list(inputs)))))
            # The program goes on with the right results: a later graph gets the inputs that it has in eager mode.
            return graph.forward(*inputs)

        return call

    api.reset()
    with config.patch(warm_start=False, background=False):
        compiled = api.compile(function, **{"isolate_recompiles": True, **options, "backend": keep, "dynamic": False})
        outcome.run(compiled, arguments, keywords)
    api.reset()
    return found


def without_attributes(graph: torch.fx.GraphModule, inputs: list[Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The graph with its tensors as further inputs."""
    graph = copy.deepcopy(graph)
    for node in list(graph.graph.find_nodes(op="get_attr")):
        value = attribute_of(graph, str(node.target))
        if isinstance(value, torch.Tensor):
            _replace_by_input(graph, node)
            inputs.append(value.detach().clone())
    graph.recompile()
    return graph, inputs


def graph_predicate(
    backend: str | Callable[..., Any], predicate: Callable[[Outcome], str] | None, engine: str
) -> GraphPredicate:
    """The predicate for a graph: one of the user's for its outcome, or the usual one."""

    def wrong(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
        expected = outcome.run(graph.forward, inputs)
        if expected.error:
            return ""  # the part that is left fails by itself
        found = outcome.for_predicate(_compiled(graph, inputs, backend, engine), inputs, {}, predicate)
        if predicate is not None:
            return predicate(found)
        return outcome.difference(expected, found, outcome.exact(graph.forward, inputs))

    return wrong


def _compiled(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: str | Callable[..., Any], engine: str
) -> Callable[..., Any]:
    # A compiler may change the graph that it is given.
    own = copy.deepcopy(graph)
    if engine == "torch":
        torch.compiler.reset()
        return torch.compile(own, backend=backend)
    api.reset()

    def call(*arguments: Any) -> Any:
        with config.patch(warm_start=False, background=False):
            return api.compile(own, backend=backend, isolate_recompiles=True, dynamic=False)(*arguments)

    return call


class _GraphReduction:
    """Cuts of one graph that keep it wrong."""

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
            # candidates are then made anew, of the smaller graph.
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
        """The difference of the result. A predicate by chance accepts any cut, so the result is asked again."""
        for _ in range(CONFIRMATIONS):
            if not (difference := self.wrong(self.graph, self.inputs)):
                raise FlakyPredicateError("the smallest graph was wrong once and right once: it was not made smaller")
        return difference

    def _size(self) -> tuple[int, int]:
        return self.operators(), len(list(self.graph.graph.nodes))

    def _take(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> bool:
        """Go on with a smaller graph, if it is still wrong."""
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
        """Chunks of operators replaced by the values that they have, from halves down to one."""
        values = _values(self.graph, self.inputs)
        names = [name for name, value in values.items() if isinstance(value, torch.Tensor)]
        size = len(names)
        while size >= 1:
            # A value in place of an operator cuts everything before it off, which is then removed
            # as dead code.
            for first in range(0, len(names), size):
                yield self._with_inputs(names[first : first + size], values)
            size //= 2

    def _with_inputs(self, names: Sequence[str], values: Mapping[str, Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
        graph, inputs = copy.deepcopy(self.graph), list(self.inputs)
        by_name = {node.name: node for node in graph.graph.nodes}
        for name in names:
            _replace_by_input(graph, by_name[name])
            inputs.append(values[name])
        graph.recompile()
        return graph, inputs

    def _halved(self) -> Iterator[list[Any]]:
        """Inputs of half the size, along one dim at a time: all that have this size there."""
        sizes = {size for value in self.inputs if isinstance(value, torch.Tensor) for size in value.shape if size > 1}
        for size in sorted(sizes, reverse=True):
            # All dims of this size at once: they mostly belong together, as those of the factors of a product.
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


def _replace_by_input(graph: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """An input behind the others, in the place of a node."""
    last = list(graph.graph.find_nodes(op="placeholder"))
    with graph.graph.inserting_after(last[-1]) if last else graph.graph.inserting_before():
        placeholder = graph.graph.placeholder(f"{node.name}_value")
    placeholder.meta = dict(node.meta)
    node.replace_all_uses_with(placeholder)
    graph.graph.erase_node(node)


def _without_unused(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Without operators and inputs that nobody reads; operators that only write stay."""
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
