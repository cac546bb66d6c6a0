"""The smallest wrong graph of a whole program, found in a separate process.

    smallest(Script(Path("train.py")), engine="nbcompile")        MinifiedScript(script=..., nodes=(57, 1))

The child runs the program with a backend that stores each graph with its first inputs, and runs it in eager mode; then
it minifies the first graph that is wrong by itself. If a graph crashes or hangs the process, each part of it is tried
in a fork (isolated.py).

In torch: TORCHDYNAMO_REPRO_AFTER=aot (torch/_dynamo/repro/after_aot.py). Read next: nbcompile/tools/diagnose/minify.py
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import nbcompile
from nbcompile import api
from nbcompile.tools import child_process, main_program
from nbcompile.tools.diagnose import isolated, minify, outcome, reproducer, script
from nbcompile.tools.diagnose.outcome import FlakyPredicateError
from nbcompile.tools.diagnose.script import Script

RESULT, CANDIDATE = "result.json", "candidate.py"
MOST_RUNS = 20
"""Time limit of the search, as a multiple of the time limit of the program."""
TOO_LONG = 124
"""The exit code of a program that did not end in time."""
Captured = tuple[torch.fx.GraphModule, list[Any]]


@dataclass(frozen=True, slots=True)
class MinifiedScript:
    """The smallest graph of a program, as a program that runs by itself."""

    difference: str
    script: str
    nodes: tuple[int, int]
    """Operators before and after."""
    graphs: int
    """Number of graphs of the program."""


def smallest(program: Script, engine: str = "nbcompile", *, with_values: bool = True) -> MinifiedScript:
    """Minify the first wrong graph of a program; without values, the inputs in it are random.

    Raises:
        minify.NothingToMinify: no graph is wrong by itself.
        RuntimeError: the child ended without a result.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = {"engine": engine, "with_values": with_values, "seconds": program.seconds}
        order = json.dumps({"path": str(program.path), "folder": name, **options})
        command = [sys.executable, "-m", "nbcompile.tools.diagnose.script_graphs", order, *program.arguments]
        ended = child_process.run(command, MOST_RUNS * program.seconds, script.environment(), program.given)
        if (folder / RESULT).exists():
            return _result(json.loads((folder / RESULT).read_text(encoding="utf-8")))
        ending = _ending(ended)
        if (folder / CANDIDATE).exists():  # the graph that was being tried when the process ended
            text = f"# {ending}\n" + (folder / CANDIDATE).read_text(encoding="utf-8")
            return MinifiedScript(ending, text, (0, 0), 0)
    raise RuntimeError(f"the program ended before a graph was tried: {ending}")


def _result(found: dict[str, Any]) -> MinifiedScript:
    if found.get("flaky"):
        raise FlakyPredicateError(found["flaky"])
    if not found["script"]:
        raise minify.NothingToMinify(f"none of {found['graphs']} graphs is wrong by itself: see bisect")
    return MinifiedScript(found["difference"], found["script"], tuple(found["nodes"]), found["graphs"])


def _ending(ended: child_process.ProcessResult) -> str:
    if ended.code in (child_process.HUNG, TOO_LONG):
        return "it did not end in time"
    if ended.code < 0:
        return f"killed by signal {-ended.code}"
    if not ended.code:
        return "by os._exit, which leaves no time for it"
    error = script.last_error(ended.errors)
    return f"exit code {ended.code}" + (f": {error}" if error else "")


def main(arguments: list[str]) -> None:
    """Run in the child process."""
    order = json.loads(arguments[0])
    folder, first = Path(order["folder"]), os.getpid()
    clock = threading.Timer(order["seconds"], os._exit, (TOO_LONG,))
    clock.start()
    graphs = _graphs(Path(order["path"]), arguments[1:])
    child_process.leave_if_forked(first)
    clock.cancel()
    try:
        found = _first_wrong(graphs, folder, order)
    except FlakyPredicateError as error:
        found = {"flaky": str(error)}
    (folder / RESULT).write_text(json.dumps({**found, "graphs": len(graphs)}), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # threads and handlers of the program must not change the result


def _first_wrong(graphs: Sequence[Captured], folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    """The first wrong graph, reduced."""
    engine = order["engine"]
    usual = minify.graph_predicate("inductor", None, engine)

    def write(graph: torch.fx.GraphModule, inputs: Sequence[Any], difference: str) -> str:
        text = reproducer.write(graph, inputs, "inductor", engine, difference, with_values=order["with_values"])
        (folder / CANDIDATE).write_text(text, encoding="utf-8")
        return text

    in_fork = minify.ends_in_fork(usual, order["seconds"])

    def isolated_predicate(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
        if ends := in_fork(graph, inputs):
            write(graph, inputs, ends)
        return ends

    for graph, inputs in graphs:
        write(graph, inputs, "this graph ends the process")
        ends = isolated.ending(functools.partial(usual, graph, inputs), order["seconds"])
        wrong = isolated_predicate if ends else usual
        with contextlib.suppress(minify.NothingToMinify):
            found = minify.minify_graph(graph, inputs, engine=engine, wrong=wrong)
            text = write(found.graph, found.inputs, found.difference)
            return {"difference": found.difference, "script": text, "nodes": found.nodes}
    return {"script": ""}


def _graphs(path: Path, arguments: Sequence[str]) -> list[Captured]:
    """Each graph of a program with the inputs of its first call."""
    found: list[Captured] = []

    def keep(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        own, inputs_seen = copy.deepcopy(graph), list[None]()

        def call(*inputs: Any) -> Any:
            if not inputs_seen:
                inputs_seen.append(None)
                found.append(minify.without_attributes(own, list(outcome.copied(list(inputs)))))
            return graph.forward(*inputs)

        return call

    def compile(model: Any = None, **keywords: Any) -> Any:  # noqa: A001 - its name
        if model is None:
            return lambda function: compile(function, **keywords)
        changed = {name: value for name, value in keywords.items() if name not in ("backend", "mode", "options")}
        return api.compile(model, **changed, backend=keep)

    packages: tuple[Any, Any] = (nbcompile, torch)
    for package in packages:
        package.compile = compile
    with contextlib.suppress(Exception, SystemExit):
        main_program.run(str(path), arguments)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
