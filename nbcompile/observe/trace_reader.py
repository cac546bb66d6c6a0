"""A trace of the real torch.compile (or of nbcompile) as records, one for each rank.

    trace = read(Path("/tmp/trace"))       a folder, or one file; .gz, too
    trace.records                          {0: Record(...), 1: Record(...)}
    trace.notes                            the parts that could not be read, and those that a trace lacks

The parts of the trace become parts of a record: source lines, graphs, guards, breaks, recompilations, kernels, stages
with their times. Parts that it lacks (the other lines of the source, fusion decisions, memory) are named in the notes.

In torch: tlparse does the same for its pages. Read next: nbcompile/observe/trace_text.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbcompile.observe import trace_text
from nbcompile.observe.structured_trace import GRAPH_RECORDS, MICROSECONDS, RECORD
from nbcompile.observe.trace_file import Entry, Problems, begins, entries
from nbcompile.record import codec
from nbcompile.record.model import (
    Break,
    CompiledFrame,
    CompiledGraph,
    Environment,
    Graph,
    Kernel,
    Node,
    Record,
    StackLine,
    Symbol,
    Timing,
)

STAGES = {record: stage for stage, record in GRAPH_RECORDS.items()}
SELECTED = frozenset((
    *STAGES, RECORD, "dynamo_output_graph", "dynamo_cpp_guards_str", "dynamo_guards", "dynamo_graph_break_reason",
    "recompile_reasons", "inductor_output_code", "chromium_event", "torch_version", "compilation_metrics",
))  # fmt: skip
"""Names whose payloads are read."""
RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
MOST_FRAMES = 2_000
MOST_SOURCE_LINES = 2_000
NOT_IN_TRACE = (
    "a trace of torch.compile holds no fusion decisions, no memory plan and no run time of kernels, "
    "and of the source only the lines that it names"
)
ENDS_BEFORE = "this trace of nbcompile ends before what it writes last of a frame, the whole record: that is missing"
MOST_NAMED = 4
"""Files or folders that a message names."""


class TraceFormatError(ValueError):
    """Error for a folder without a trace; the message names its contents."""


@dataclass(frozen=True, slots=True)
class OpenedTrace:
    """The result of reading a trace."""

    records: dict[int, Record]
    """Records by rank; a program of one process is rank 0."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class _FrameEntries:
    """The entries of one frame so far; a later attempt replaces the graphs of an earlier one."""

    id: str
    texts: dict[str, str] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    start: list[Any] = field(default_factory=list)
    symbols: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _RankEntries:
    frames: dict[str, _FrameEntries] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    torch: str = ""
    ours: bool = False
    """True if nbcompile wrote the trace."""

    @property
    def is_complete(self) -> bool:
        """True if nbcompile wrote the trace, with whole records."""
        return all(RECORD in frame.texts for frame in self.frames.values())


def begins_trace(first: bytes) -> bool:
    """True if a file begins as a trace does: ``V1123 22:45:21.189000 ...``."""
    return re.match(rb"(\[rank\d+\]:)?[VIWEC]\d{4} \d\d:", first) is not None


def read(path: Path, *, first: bool = False) -> OpenedTrace:
    """Read a file, or all traces of a folder.

    Args:
        path: the file or the folder.
        first: of several files of a rank take the one that begins first: in a folder of one run, the main process.
            Else it is the newest, of the last run.

    Raises:
        OSError: there is nothing, or it cannot be opened.
        TraceFormatError: no record of a trace was found.
    """
    problems = Problems()
    processes: dict[tuple[int, Path], _RankEntries] = {}
    for file, rank in _files(path):
        for entry in entries(file, SELECTED, problems):
            own = processes.setdefault((rank if entry.rank is None else entry.rank, file), _RankEntries())
            _add(own, entry, problems)
    ranks = _one_of_each_rank(processes, problems, first=first)
    found = {rank: own for rank, own in sorted(ranks.items()) if own.frames}
    records = {rank: _record(own, f" (rank {rank})" if len(found) > 1 else "") for rank, own in found.items()}
    if not records:
        raise TraceFormatError(f"{path} holds no compiles of a structured trace (TORCH_TRACE)")
    if any(not own.is_complete for own in ranks.values()):
        problems.messages.append(ENDS_BEFORE if any(own.ours for own in ranks.values()) else NOT_IN_TRACE)
    return OpenedTrace(records, tuple(problems.sentences()))


def _files(path: Path) -> list[tuple[Path, int]]:
    if not path.is_dir():
        return [(path, _rank(path))]
    found = _logs(path)
    if not found:
        below = [folder.name for folder in sorted(path.iterdir()) if folder.is_dir() and _logs(folder)]
        hint = f"; its folders {', '.join(below[:MOST_NAMED])} do" if below else ""
        raise TraceFormatError(f"{path} holds no file of a structured trace (*.log, *.log.gz){hint}")
    return [(each, _rank(each)) for each in found]


def _logs(folder: Path) -> list[Path]:
    return sorted(each for pattern in ("*.log", "*.log.gz") for each in folder.glob(pattern) if each.is_file())


def _one_of_each_rank(
    processes: dict[tuple[int, Path], _RankEntries], problems: Problems, *, first: bool
) -> dict[int, _RankEntries]:
    """One file of each rank: compile ids begin anew in each process, so two files are not one record."""
    files: dict[int, list[Path]] = {}
    for (rank, file), own in processes.items():
        if own.frames:
            files.setdefault(rank, []).append(file)
    taken = {rank: min(found, key=begins) if first else max(found, key=_changed) for rank, found in files.items()}
    for rank, found in files.items():
        others = [file.name for file in found if file != taken[rank]]
        if others:
            more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
            which = "first" if first else "newest"
            problems.messages.append(
                f"rank {rank} has {len(found)} files, one for each process; the {which}, {taken[rank].name}, is shown, "
                f"without {', '.join(others[:MOST_NAMED])}{more} (open them by name)"
            )
    return {rank: processes[rank, file] for rank, file in taken.items()}


def _changed(file: Path) -> tuple[int, str]:
    return file.stat().st_mtime_ns, file.name


def _rank(path: Path) -> int:
    found = re.search(r"rank_(\d{1,6})", path.name)
    return int(found[1]) if found else 0


def _add(own: _RankEntries, entry: Entry, problems: Problems) -> None:
    if entry.name == "str" and isinstance(entry.metadata, list) and len(entry.metadata) == 2:
        # torch writes each file name once, and its number afterwards.
        own.strings[_whole(entry.metadata[1])] = str(entry.metadata[0])
    own.ours = own.ours or entry.name == "nbcompile"
    if entry.name == "torch_version":
        own.torch = _version(entry.payload)
    if not entry.compile_id:
        return
    if entry.compile_id not in own.frames and len(own.frames) >= MOST_FRAMES:
        sentence = f"only the first {MOST_FRAMES} compiles are read"
        problems.messages += [] if sentence in problems.messages else [sentence]
        return
    frame = own.frames.setdefault(entry.compile_id, _FrameEntries(entry.compile_id))
    match entry.name:
        case "dynamo_start" if isinstance(entry.metadata, dict):
            frame.start = entry.metadata.get("stack") or []
        case "compilation_metrics" if isinstance(entry.metadata, dict):
            frame.metrics = entry.metadata
        case "create_symbol" if isinstance(entry.metadata, dict):
            frame.symbols.append(entry.metadata)
        case "chromium_event":
            frame.events.append(_json(entry.payload))
        case "dynamo_graph_break_reason":
            frame.breaks.append(entry.payload)
        case "inductor_output_code":
            frame.codes.append(entry.payload)
        case name if name in SELECTED:
            frame.texts[name] = entry.payload
        case name if name.endswith(("_ORIGINAL_BYTECODE", "_MODIFIED_BYTECODE")):
            # The name begins with that of the function; ORIGINAL and MODIFIED have equally many letters.
            frame.texts[name[-len("ORIGINAL_BYTECODE") :]] = entry.payload


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _version(payload: str) -> str:
    found = re.search(r"\d+\.\d+\.\d+[\w.+]*", payload[:1000])
    return found[0] if found else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


# --- records ---------------------------------------------------------------------------------------------------------


def _record(own: _RankEntries, where: str) -> Record:
    frames: list[CompiledFrame] = []
    timings: list[Timing] = []
    # By number, so that 10/0 comes after 9/0. A trace of nbcompile has each frame as data, and no text of it is parsed.
    for entry in sorted(own.frames.values(), key=lambda frame: [int(part) for part in re.findall(r"\d+", frame.id)]):
        whole = _own_record(entry.texts.get(RECORD, ""))
        frames.append(whole.frames[0] if whole else _frame(entry, own))
        timings += whole.timings if whole else _timings(entry)
    named = next((frame.function for frame in frames if frame.function), "trace")
    compiler = "" if own.is_complete else f" in a trace of {'nbcompile' if own.ours else 'torch.compile'}"
    return Record(
        f"{named}{where}{compiler}",
        Environment(torch=own.torch),
        tuple(frames),
        tuple(timings),
    )


def _own_record(text: str) -> Record | None:
    """The frame as nbcompile wrote it, whole; None in a trace of torch.compile."""
    try:
        record = codec.from_json(text) if text else None
    except codec.RecordFormatError:
        return None
    return record if record is not None and len(record.frames) == 1 else None


def _frame(entry: _FrameEntries, own: _RankEntries) -> CompiledFrame:
    metrics, called = entry.metrics, _stack(entry.start, own)
    function = str(metrics.get("co_name") or (called[-1].function if called else "unknown"))
    file = str(metrics.get("co_filename") or (called[-1].file if called else ""))
    first_line = _whole(metrics.get("co_firstlineno")) or (called[-1].line if called else 0)
    breaks = tuple(
        _inside(trace_text.graph_break(f"{entry.id}.b{at}", text), function) for at, text in enumerate(entry.breaks)
    )
    code = entry.texts.get("dynamo_output_graph", "")
    graph = _with_sources(trace_text.graph(entry.id, "captured", code)) if code else None
    failed_guards = trace_text.failed_guards(entry.texts.get("recompile_reasons", ""))
    guards = trace_text.guards(entry.id, entry.texts.get("dynamo_cpp_guards_str", ""))
    lines = _named_lines(file, graph, breaks, guards)
    status, reason = _status(metrics, graph)
    resumed = function.startswith("torch_dynamo_resume_in_")
    return CompiledFrame(
        entry.id, function, file, first_line, _source(first_line, lines, function), status,
        cause="recompiled" if failed_guards else "resumed" if resumed else "first call",
        failed_guards=failed_guards,
        graph=graph if status == "compiled" else None, unfinished=None if status == "compiled" else graph,
        compiled_graph=_compiled_graph(entry),
        guards=guards,
        symbols=tuple({each.name: each for each in map(_symbol, entry.symbols)}.values()),
        breaks=_once(breaks),
        instructions=trace_text.instructions(entry.texts.get("ORIGINAL_BYTECODE", "")),
        residual_instructions=trace_text.instructions(entry.texts.get("MODIFIED_BYTECODE", "")),
        skip_reason=reason,
    )  # fmt: skip


def _inside(found: Break, function: str) -> Break:
    """A break with its stack from the compiled function on, without the callers."""
    resumed = RESUMED.fullmatch(function)
    names = {function, resumed[1] if resumed else function}
    first = next((at for at, line in enumerate(found.stack) if line.function in names), 0)
    return replace(found, stack=found.stack[first:])


def _once(breaks: Sequence[Break]) -> tuple[Break, ...]:
    """Each break once: a second attempt has the break of the first one, too."""
    # Reversed twice: of equal breaks the first one is kept, at its position.
    found = {(each.title, each.stack[-1:]): each for each in reversed(breaks)}
    return tuple(reversed(found.values()))


def _status(metrics: dict[str, Any], graph: Graph | None) -> tuple[str, str]:
    if metrics.get("fail_type"):
        return "failed", f"{metrics['fail_type']}: {metrics.get('fail_reason') or ''}".rstrip(": ")
    if not metrics:
        return ("compiled", "") if graph else ("failed", "the trace ends before the compile did")
    if metrics.get("has_guarded_code") is False:
        return "skipped", "torch.compile kept no code"
    return "compiled", ""


def _compiled_graph(entry: _FrameEntries) -> CompiledGraph | None:
    texts = [(stage, entry.texts[name]) for name, stage in STAGES.items() if name in entry.texts]
    graphs = tuple(trace_text.graph(entry.id, stage, text) for stage, text in texts)
    if not graphs and not entry.codes:
        return None
    found: list[Kernel] = []
    for number, code in enumerate(entry.codes):
        found += trace_text.kernels(f"{entry.id}.code{number}.", code)
    wrappers = "\n\n".join(map(trace_text.wrapper, entry.codes))
    return CompiledGraph("inductor" if entry.codes else "aot_eager", graphs, kernels=tuple(found), wrapper=wrappers)


def _with_sources(graph: Graph) -> Graph:
    """Placeholders under the expressions that their names abbreviate: ``L_x_`` is ``L['x']``."""
    return replace(graph, nodes=tuple(_with_source(node) for node in graph.nodes))


def _with_source(node: Node) -> Node:
    found = re.fullmatch(r"([LG])_(\w+)_", node.name) if node.op == "placeholder" else None
    return replace(node, source=f"{found[1]}['{found[2]}']") if found else node


def _stack(lines: Iterable[Any], own: _RankEntries) -> tuple[StackLine, ...]:
    found = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
    return tuple(
        StackLine(
            own.strings.get(_whole(line.get("filename")), str(line.get("filename", ""))),
            _whole(line.get("line")),
            str(line.get("name", "")),
            str(line.get("loc") or ""),
        )
        for line in found
    )


def _named_lines(file: str, graph: Graph | None, breaks: Sequence[Any], guards: Sequence[Any]) -> dict[int, str]:
    """The lines of a file whose text the trace names."""
    stacks = [node.stack for node in graph.nodes] if graph else []
    stacks += [each.stack for each in (*breaks, *guards)]
    own = [line for stack in stacks for line in stack if line.code and (file.endswith(line.file) or line.file == file)]
    return {line.line: line.code for line in own}


def _source(first: int, lines: dict[int, str], function: str) -> str:
    """The function as far as the trace names its lines."""
    inside = {number: text for number, text in lines.items() if first < number < first + MOST_SOURCE_LINES}
    if not inside or first <= 0:
        return ""
    shown = [f"def {function}(...):  # this line is not in the trace"]
    shown += [f"    {inside.get(number, '...')}" for number in range(first + 1, max(inside) + 1)]
    return "\n".join(shown) + "\n"


def _symbol(metadata: dict[str, Any]) -> Symbol:
    values = {name: str(metadata.get(name) or "") for name in ("symbol", "source", "val", "vr")}
    return Symbol(values["symbol"], (values["source"],), values["val"], values["vr"], "torch.compile")


def _timings(entry: _FrameEntries) -> list[Timing]:
    """Stages from pairs of events; events without an end are left out."""
    found: list[Timing] = []
    opened: list[tuple[str, float]] = []
    for event in entry.events:
        name, at = str(event.get("name", "")), event.get("ts")
        if not isinstance(at, (int, float)):
            continue
        if event.get("ph") == "B":
            opened.append((name, at / MICROSECONDS))
        elif event.get("ph") == "E" and any(name == each for each, _ in opened):
            # An event without an end (after an exception) ends with the enclosing one.
            while opened[-1][0] != name:
                opened.pop()
            began = opened.pop()[1]
            inside = opened[-1][0] if opened else ""
            found.append(Timing(entry.id, name, max(at / MICROSECONDS - began, 0.0), began, inside))
    return found
