"""The smallest graph and inputs with which something is still wrong, as a file that runs by itself.

    smallest = nbcompile.minify(f)(x)
    print(smallest)                    a program: the graph, its inputs by seed, both results, an assertion
    smallest.nodes                     operators before and after: (57, 1)

The captured graph is reduced as long as the predicate holds: results are left out; the graph ends earlier; operators
become inputs, in halves, quarters, ... (delta debugging); unused inputs are removed. In the end, sizes are halved.

In torch: torch/_functorch/fx_minifier.py. Read next: nbcompile/tools/diagnose/reproducer.py
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import api, config
from nbcompile.backends.run_aten import attribute_of
from nbcompile.tools.diagnose import isolated, outcome
from nbcompile.tools.diagnose.graph_reduction import GraphPredicate, GraphReduction, MinifiedGraph, replace_by_input
from nbcompile.tools.diagnose.outcome import FlakyPredicateError, Outcome


class NothingToMinify(ValueError):
    """The predicate holds for no captured graph."""


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

    If a graph ends the process, or does not end, each part of it is tried in a fork.

    Args:
        function: a function or module that is not compiled yet.
        backend: the backend that compiles the graphs.
        predicate: function of an :class:`Outcome` (its values, its exception, the ``seconds`` of a call) that returns
        a description of the error, or "". Default: a difference from eager mode that rounding does not explain,
        an exception of the compiler, or a failure inside it.
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
    """The predicate for a graph that crashes or hangs the process: whether it does so in a fork."""

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
    """Find the smallest part of one graph for which a predicate holds: that of the caller, or the default one.

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
        raise FlakyPredicateError("the same graph was wrong once and right once: it cannot be reduced")
    return GraphReduction(graph, inputs, wrong).run(backend, engine)


def captured(
    function: Callable[..., Any], options: Mapping[str, Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The graphs of a call with their inputs; constants of a graph become inputs."""
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def keep(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        own = copy.deepcopy(graph)

        def call(*inputs: Any) -> Any:
            found.append(without_attributes(own, list(outcome.copied(list(inputs)))))
            # The program continues with eager mode's results: later graphs have the inputs of eager mode.
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
            replace_by_input(graph, node)
            inputs.append(value.detach().clone())
    graph.recompile()
    return graph, inputs


def graph_predicate(
    backend: str | Callable[..., Any], predicate: Callable[[Outcome], str] | None, engine: str
) -> GraphPredicate:
    """The predicate for a graph: the user's predicate for its outcome, or the default one."""

    def wrong(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
        expected = outcome.run(graph.forward, inputs)
        if expected.error:
            return ""  # the remaining part fails in eager mode, too
        found = outcome.for_predicate(_compiled(graph, inputs, backend, engine), inputs, {}, predicate)
        if predicate is not None:
            return predicate(found)
        return outcome.difference(expected, found, outcome.exact(graph.forward, inputs))

    return wrong


def _compiled(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: str | Callable[..., Any], engine: str
) -> Callable[..., Any]:
    # A compiler may modify its graph.
    own = copy.deepcopy(graph)
    if engine == "torch":
        torch.compiler.reset()
        return torch.compile(own, backend=backend)
    api.reset()

    def call(*arguments: Any) -> Any:
        with config.patch(warm_start=False, background=False):
            return api.compile(own, backend=backend, isolate_recompiles=True, dynamic=False)(*arguments)

    return call
