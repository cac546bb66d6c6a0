"""The smallest wrong graph of a whole program, found in a process of its own.

    smallest(Script(Path("train.py")), engine="nbcompile")        MinifiedScript(script=..., nodes=(57, 1))

The child runs the program with a backend that keeps each graph with its first inputs, and runs it as captured; then it
minifies the first graph that is wrong by itself. A graph that crashes the child is the result, whole.

In torch: TORCHDYNAMO_REPRO_AFTER=aot (torch/_dynamo/repro/after_aot.py). Read next: nbcompile/tools/diagnose/minify.py
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import nbcompile
from nbcompile import api
from nbcompile.tools.diagnose import minify, outcome, reproducer, script
from nbcompile.tools.diagnose.script import Script

RESULT, CANDIDATE = "result.json", "candidate.py"


@dataclass(frozen=True, slots=True)
class MinifiedScript:
    """The smallest graph of a program, as a program that runs alone."""

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
        order = json.dumps({"path": str(program.path), "folder": name, "engine": engine, "with_values": with_values})
        command = [sys.executable, "-m", "nbcompile.tools.diagnose.script_graphs", order, *program.arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=program.seconds, check=False,
                stdin=subprocess.DEVNULL, env=script.environment(), errors="replace",
            )  # fmt: skip
            ending = f"killed by signal {-done.returncode}" if done.returncode < 0 else done.stderr.strip()[-300:]
        except subprocess.TimeoutExpired:
            ending = "did not end in time"
        if (folder / RESULT).exists():
            found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
            if not found["script"]:
                raise minify.NothingToMinify(f"none of {found['graphs']} graphs is wrong by itself: see bisect")
            return MinifiedScript(found["difference"], found["script"], tuple(found["nodes"]), found["graphs"])
        if (folder / CANDIDATE).exists():  # the graph that was tried when the process ended
            text = f"# {ending}\n" + (folder / CANDIDATE).read_text(encoding="utf-8")
            return MinifiedScript(ending, text, (0, 0), 0)
    raise RuntimeError(f"the program ended before a graph was tried: {ending}")


def main(arguments: list[str]) -> None:
    """The child."""
    order = json.loads(arguments[0])
    folder, engine = Path(order["folder"]), order["engine"]
    graphs = _graphs(Path(order["path"]), arguments[1:])
    for graph, inputs in graphs:
        write = functools.partial(reproducer.write, with_values=order["with_values"])
        text = write(graph, inputs, "inductor", engine, "this graph ends the process")
        (folder / CANDIDATE).write_text(text, encoding="utf-8")
        with contextlib.suppress(minify.NothingToMinify):
            found = minify.minify_graph(graph, inputs, engine=engine)
            text = write(found.graph, found.inputs, "inductor", engine, found.difference)
            result = {"difference": found.difference, "script": text, "nodes": found.nodes}
            (folder / RESULT).write_text(json.dumps({**result, "graphs": len(graphs)}), encoding="utf-8")
            return
    (folder / RESULT).write_text(json.dumps({"script": "", "graphs": len(graphs)}), encoding="utf-8")


def _graphs(path: Path, arguments: Sequence[str]) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """Each graph of a program with the inputs of its first call."""
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

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
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.parent)
    with contextlib.suppress(Exception, SystemExit):
        runpy.run_path(str(path), run_name="__main__")
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
