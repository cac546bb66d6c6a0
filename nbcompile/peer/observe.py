"""Record of the real torch.compile, from its logs.

This module reads two of torch's logs (``graph_breaks`` and ``recompiles``) and
the compile id of each graph, and returns a :class:`~nbcompile.record.model.Record`
as our compiler does, so one view can show both side by side.

    record, result = observe(f)(x)
    [frame.id for frame in record.frames]      ["0/0", "1/0"]
    record.frames[0].breaks[0].title           "Data-dependent branching"

In torch: torch/_logging/_internal.py (artifacts), torch/_guards.py
(CompileContext). Read next: tests/peer/harness.py
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch._guards import CompileContext
from torch._logging._internal import set_logs
from torch.fx.node import _get_qualified_name

from nbcompile.record import model

_BREAK_LOGS = tuple(f"torch._dynamo.{module}.__graph_breaks" for module in ("convert_frame", "exc", "symbolic_convert"))
_RECOMPILE_LOG = "torch._dynamo.guards.__recompiles"


@dataclass(frozen=True, slots=True)
class BreakReport:
    """One graph break that torch reported, from its log."""

    compile_id: str
    title: str
    """torch's ``gb_type``: ``Data-dependent branching``."""
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Recompilation:
    """One recompilation: the function, and the guard that failed in each entry, newest first."""

    compile_id: str
    function: str
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Watch:
    """Torch's reports while it was observed, in order."""

    breaks: list[BreakReport] = field(default_factory=list)
    recompiles: list[Recompilation] = field(default_factory=list)


def compile_id() -> str:
    """The id of the frame that torch compiles right now (``"0/0"``), "" if none."""
    return str(CompileContext.current_compile_id() or "")


@contextmanager
def watch() -> Iterator[Watch]:
    """Collect torch's breaks and recompilations inside the block; its log settings are restored."""
    watched = Watch()
    listeners = {name: _Listener(_hear_break, watched) for name in _BREAK_LOGS}
    listeners[_RECOMPILE_LOG] = _Listener(_hear_recompile, watched)
    loggers = {name: logging.getLogger(name) for name in listeners}
    set_logs(dynamo=logging.ERROR, graph_breaks=True, recompiles=True)
    prior = {name: (list(logger.handlers), logger.propagate) for name, logger in loggers.items()}
    try:
        for name, logger in loggers.items():
            # Instead of torch's own handlers, so that a comparison of
            # compilers prints no log of one of them.
            logger.handlers, logger.propagate = [listeners[name]], False
        yield watched
    finally:
        for name, logger in loggers.items():
            logger.handlers, logger.propagate = prior[name]
        set_logs()


def observe(function: Callable[..., object], **options: object) -> Callable[..., tuple[model.Record, object]]:
    """Run one call of ``function`` through the real torch.compile, in a fresh state, and record it.

    ``options`` are torch.compile's (``dynamic``, ``fullgraph``). Graphs run as
    captured: no code is generated.
    """

    def call(*args: object, **keywords: object) -> tuple[model.Record, object]:
        graphs: list[tuple[str, model.Graph]] = []

        def keep(module: torch.fx.GraphModule, example_inputs: list[object]) -> Callable[..., object]:
            graphs.append((compile_id(), graph_entry(compile_id(), module)))
            return module.forward

        # Otherwise an entry of an earlier call could hit, and nothing would be compiled.
        torch._dynamo.reset()
        with watch() as watched:
            result = torch.compile(function, backend=keep, **options)(*args, **keywords)  # type: ignore[call-overload]
        name = getattr(function, "__name__", type(function).__name__)
        environment = model.Environment(torch=torch.__version__)
        return model.Record(name, environment, _frames(name, graphs, watched)), result

    return call


def graph_entry(frame: str, module: torch.fx.GraphModule) -> model.Graph:
    """A captured FX graph as data."""
    names = {node: f"{frame}.n{index}" for index, node in enumerate(module.graph.nodes)}
    nodes = tuple(
        model.Node(
            id=names[node],
            name=node.name,
            op=node.op,
            target=target_name(node),
            arguments=str(node.args),
            inputs=tuple(names[each] for each in node.all_input_nodes),
            **_tensor_facts(node.meta.get("example_value")),
        )
        for node in module.graph.nodes
    )
    return model.Graph(f"{frame}.captured", "captured", nodes, module.print_readable(print_output=False))


def target_name(node: torch.fx.Node) -> str:
    """The operator of a node as one word: ``torch.sin``, ``operator.add``; a method is ``.relu``."""
    match node.op:
        case "call_method":
            return f".{node.target}"
        case "call_function" if callable(node.target):
            try:
                return _get_qualified_name(node.target)
            except RuntimeError:  # torch's helper raises for callables without a module
                return str(getattr(node.target, "__name__", node.target))
        case _:
            return str(node.target)


def _tensor_facts(value: object) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {}
    sizes = tuple(map(str, value.shape))
    return {
        "shape": sizes, "stride": tuple(map(str, value.stride())),
        "dtype": str(value.dtype), "device": str(value.device),
    }  # fmt: skip


def _frames(name: str, graphs: list[tuple[str, model.Graph]], watched: Watch) -> tuple[model.CompiledFrame, ...]:
    by_id = dict(graphs)
    ids = dict.fromkeys([*(report.compile_id for report in watched.breaks), *by_id])
    return tuple(_frame(each, name, by_id.get(each), watched) for each in sorted(ids, key=_in_order))


def _in_order(compile_id: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", compile_id))


def _frame(compile_id: str, name: str, graph: model.Graph | None, watched: Watch) -> model.CompiledFrame:
    breaks = tuple(
        model.Break(
            id=f"{compile_id}.b{index}", kind="", title=report.title, explanation=report.text, hints=(), context="",
            stack=(model.StackLine(report.file, report.line, name),),
        )
        for index, report in enumerate(report for report in watched.breaks if report.compile_id == compile_id)
    )  # fmt: skip
    recompiled = next((entry for entry in watched.recompiles if entry.compile_id == compile_id), None)
    return model.CompiledFrame(
        id=compile_id,
        function=name,
        file=breaks[0].stack[0].file if breaks else "",
        first_line=0,
        source="",
        status="compiled" if graph else "skipped",
        cause="recompiled" if recompiled else "first call",
        failed_guards=tuple(
            model.FailedGuard(reason.partition(":")[0], reason.partition(": ")[2])
            for reason in (recompiled.reasons if recompiled else ())
        ),
        graph=graph,
        breaks=breaks,
    )


class _Listener(logging.Handler):
    """A log handler that passes every message to one function."""

    def __init__(self, hear: Callable[[Watch, str], None], watched: Watch) -> None:
        super().__init__()
        self.hear = hear
        self.watched = watched

    def emit(self, record: logging.LogRecord) -> None:
        self.hear(self.watched, record.getMessage())


_TITLE = re.compile(r"(?:^|\n)(?:Graph Break Reason: )?(?P<title>[^\n]+)\n(?:  Higher Order[^\n]*\n)?  Explanation:")
_SECOND = "*** While handling this graph break, another graph break occurred: ***"


def _hear_break(watched: Watch, text: str) -> None:
    location = re.search(r"in user code at (.+):(\d+)\n", text)
    file, line = (location[1], int(location[2])) if location else ("", 0)
    # The attempts of one frame are 0/0, 0/0_1, ...: a later one repeats the breaks of an earlier one.
    attempt = str(CompileContext.current_trace_id() or "")
    frame = attempt.partition("_")[0]
    for part in text.split(_SECOND):
        title = _TITLE.search(part)
        report = BreakReport(frame, title["title"] if title else part.strip().splitlines()[-1], file, line, part)
        is_repeated = any(
            (graph_break.compile_id, graph_break.title, graph_break.file, graph_break.line)
            == (frame, report.title, file, line)
            for graph_break in watched.breaks
        )
        if not (is_repeated and "_" in attempt):
            watched.breaks.append(report)


def _hear_recompile(watched: Watch, text: str) -> None:
    function = re.search(r"Recompiling function (\S+) in", text)
    reasons = re.findall(r"^\s*- (\d+/\d+: .*)$", text, re.MULTILINE)
    # The text after two blanks and a hash is the user's line, not the reason.
    shown = tuple(re.split(r"\s{2,}# ", reason)[0].rstrip() for reason in reasons)
    watched.recompiles.append(Recompilation(compile_id(), function[1] if function else "", shown))
