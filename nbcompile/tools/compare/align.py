"""Two records of one program, frame by frame, line by line, guard by guard.

    align("f", ours, theirs, our_run, their_run)       Comparison

Frames are paired by function, first line and number of the entry. Operators are compared as both print them, guards
by their conditions (compare/guards.py). Differences are listed by weight: results, frames, breaks, graphs, ...

In torch: nothing. Read next: nbcompile/tools/compare/guards.py
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nbcompile.observe import trace_text
from nbcompile.record import links
from nbcompile.record.comparison import (
    EQUAL,
    ONLY_OURS,
    ONLY_THEIRS,
    Comparison,
    Difference,
    EngineRun,
    Fact,
    FramePair,
    GuardPair,
    LineMarks,
    LinePair,
)
from nbcompile.record.model import Break, CompiledFrame, Graph, Node, Record, StackLine
from nbcompile.tools.compare import guards, known

RESUMED = "torch_dynamo_resume_in_"
STAGES = ("inference", "joint", "forward", "backward")
CALLS = re.compile(r"^\s*(?:\w+ = )?(?:extern_kernels|torch\.ops)\.\w+(?:\.\w+)*\(", re.MULTILINE)
ALLOCATED = re.compile(r"= empty_strided\w*\((?P<shape>\([^()]*\)), \([^()]*\), (?:dtype=)?torch\.(?P<dtype>\w+)")
ITEM_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
Frames = tuple[CompiledFrame | None, CompiledFrame | None]


def align(
    title: str, ours: Record, theirs: Record, our_run: EngineRun, their_run: EngineRun, notes: Sequence[str] = ()
) -> Comparison:
    """Align two records of the same program."""
    pairs = pair_frames(ours.frames, theirs.frames)
    frames = tuple(_frame_pair(*pair) for pair in pairs)
    differences = (*_of_runs(our_run, their_run), *sorted(_differences(pairs, frames), key=_weight))
    return Comparison(
        title, ours, theirs, our_run, their_run,
        facts=tuple(_facts(ours, theirs, our_run, their_run)),
        differences=differences, frames=frames, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def pair_frames(ours: Sequence[CompiledFrame], theirs: Sequence[CompiledFrame]) -> list[Frames]:
    """Pairs of frames that are entries of the same code, in the order of ours; then frames that only torch has."""
    left, pairs = _by_code(theirs), list[Frames]()
    for key, frame in _by_code(ours).items():
        pairs.append((frame, left.pop(key, None)))
    return pairs + [(None, frame) for frame in left.values()]


def _by_code(frames: Sequence[CompiledFrame]) -> dict[tuple[str, str, int, int], CompiledFrame]:
    count: Counter[tuple[str, str, int]] = Counter()
    found: dict[tuple[str, str, int, int], CompiledFrame] = {}
    for frame in frames:
        if frame.graph is None and not frame.breaks and frame.status == "skipped":
            continue  # nothing was compiled, and nothing prevented it
        # torch begins a resume function at the line of the break, nbcompile at that of its function.
        first_line = 0 if frame.function.startswith(RESUMED) else frame.first_line
        code = (frame.function, frame.file, first_line)
        # The n-th entry of one is paired with the n-th of the other: both compile in the order of the calls.
        found[*code, count[code]] = frame
        count[code] += 1
    return found


def operators(frame: CompiledFrame | None, graph: Graph | None) -> list[tuple[str, Node]]:
    """The operators of a graph as both compilers print them (``torch._C._nn.linear``), with their nodes."""
    if frame is None or graph is None:
        return []
    # From the code that both print: our record shortens names of functions, and of torch's
    # graphs there is only the text.
    printed = {node.name: node.target for node in trace_text.graph(frame.id, graph.stage, graph.code).nodes}
    return [(printed.get(node.name, node.target), node) for node in links.operators(graph)]


# --- one frame --------------------------------------------------------------------------------------------------------


def _frame_pair(ours: CompiledFrame | None, theirs: CompiledFrame | None) -> FramePair:
    known_frame = ours or theirs
    assert known_frame is not None
    pairs = guards.pair(ours.guards, theirs.guards) if ours and theirs else ()
    return FramePair(
        known_frame.function, known_frame.file, known_frame.first_line,
        ours.id if ours else "", theirs.id if theirs else "",
        tuple(_lines(ours, theirs)), tuple(pairs),
    )  # fmt: skip


def _lines(ours: CompiledFrame | None, theirs: CompiledFrame | None) -> Iterator[LinePair]:
    """The source lines to which either compiler attributes results, and the lines between them."""
    shown = ours or theirs
    assert shown is not None
    marks = [_marks(frame, shown) for frame in (ours, theirs)]
    for number, text in enumerate(shown.source.rstrip("\n").split("\n") if shown.source else (), shown.first_line):
        yield LinePair(number, text, *(each.get(number, LineMarks()) for each in marks))


def _marks(frame: CompiledFrame | None, shown: CompiledFrame) -> dict[int, LineMarks]:
    """Results of a compiler by line of the shown source."""
    if frame is None:
        return {}
    nodes: dict[int, list[str]] = {}
    for target, node in operators(frame, links.traced(frame)):
        if stack_line := own_location(shown, node.stack):
            nodes.setdefault(stack_line.line, []).append(target)
    broken: dict[int, list[str]] = {}
    for found in frame.breaks:
        if stack_line := own_location(shown, found.stack):
            broken.setdefault(stack_line.line, []).append(found.title)
    checked = Counter(stack_line.line for guard in frame.guards if (stack_line := own_location(shown, guard.stack)))
    return {
        line: LineMarks(tuple(nodes.get(line, ())), tuple(broken.get(line, ())), checked[line])
        for line in {*nodes, *broken, *checked}
    }


def own_location(frame: CompiledFrame, stack: tuple[StackLine, ...]) -> StackLine | None:
    """The line of a stack that is in the frame's source; torch shortens file names to their end."""
    if found := links.own_location(frame, stack):
        return found
    own = tuple(replace(line, file=frame.file) for line in stack if line.file and frame.file.endswith(line.file))
    return links.own_location(frame, own)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _facts(ours: Record, theirs: Record, our_run: EngineRun, their_run: EngineRun) -> Iterator[Fact]:
    for name, unit, count in COUNTS:
        yield Fact(name, count(ours), count(theirs), unit)
    for stage in STAGES:
        found = Fact(f"ATen operators, {stage}", _aot_operators(ours, stage), _aot_operators(theirs, stage))
        if found.ours or found.theirs:
            yield found
    if our_run.program_seconds or their_run.program_seconds:
        yield Fact("whole program", our_run.program_seconds, their_run.program_seconds, "s", is_time=True)
    if our_run.first_call_seconds is None and their_run.first_call_seconds is None:
        return
    yield Fact("first call", our_run.first_call_seconds, their_run.first_call_seconds, "s", is_time=True)
    yield Fact("later call", _micro(our_run.call_seconds), _micro(their_run.call_seconds), "us", is_time=True)


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def _aot_operators(record: Record, stage: str) -> int:
    compiled = [frame.compiled_graph for frame in record.frames if frame.compiled_graph]
    return sum(len(links.operators(graph)) for each in compiled for graph in each.graphs if graph.stage == stage)


def _kernels(record: Record) -> list[str]:
    compiled = [frame.compiled_graph for frame in record.frames if frame.compiled_graph]
    return [kernel.source for each in compiled for kernel in each.kernels if kernel.language != "aten"]


def _library_calls(record: Record) -> int:
    """Calls of operators that are not generated: in our record they are kernels, in Inductor's wrapper lines."""
    compiled = [frame.compiled_graph for frame in record.frames if frame.compiled_graph]
    listed = sum(kernel.language == "aten" for each in compiled for kernel in each.kernels)
    return listed or sum(len(CALLS.findall(each.wrapper)) for each in compiled)


def _allocated(record: Record) -> int | None:
    """Bytes of the buffers that wrappers allocate; None where a size is symbolic."""
    total = 0
    for frame in record.frames:
        for match in ALLOCATED.finditer(frame.compiled_graph.wrapper if frame.compiled_graph else ""):
            # A size that is a symbol is no literal.
            try:
                shape = ast.literal_eval(match["shape"])
            except (ValueError, SyntaxError):
                return None
            size = ITEM_BYTES.get(match["dtype"], 1)
            for length in shape:
                size *= length
            total += size
    return total


COUNTS: tuple[tuple[str, str, Callable[[Record], int | None]], ...] = (
    ("compiled frames", "", lambda record: sum(frame.graph is not None for frame in record.frames)),
    ("operators captured", "", lambda record: sum(len(links.operators(frame.graph)) for frame in record.frames)),
    ("graph breaks", "", lambda record: sum(len(frame.breaks) for frame in record.frames)),
    ("guards", "", lambda record: sum(len(frame.guards) for frame in record.frames)),
    ("recompilations", "", lambda record: sum(bool(frame.failed_guards) for frame in record.frames)),
    ("generated kernels", "", lambda record: len(_kernels(record))),
    ("calls of ATen and libraries", "", _library_calls),
    ("generated code", "bytes", lambda record: sum(map(len, _kernels(record)))),
    ("buffers allocated", "bytes", _allocated),
)


# --- differences ------------------------------------------------------------------------------------------------------

ASPECTS = ("result", "frame", "graph break", "graph", "recompilation", "AOT graph", "guards")


def _weight(difference: Difference) -> int:
    return ASPECTS.index(difference.aspect)


def _of_runs(ours: EngineRun, theirs: EngineRun) -> Iterator[Difference]:
    texts = [run.failure or run.difference for run in (ours, theirs)]
    if any(texts):
        shown = [text or "as in eager mode" for text in texts]
        yield known.explained(Difference("result", "the whole program", shown[0], shown[1]))


def _differences(pairs: Sequence[Frames], frames: Sequence[FramePair]) -> Iterator[Difference]:
    for (ours, theirs), pair in zip(pairs, frames, strict=True):
        function = f"{pair.function} ({pair.ours or 'not compiled'}; {pair.theirs or 'not compiled'})"
        yield from (known.explained(replace(found, place=function)) for found in _of_frames(ours, theirs))
        if unmatched := [guard for guard in pair.guards if guard.status != EQUAL]:
            yield _of_guards(function, pair.guards, unmatched)


def _of_frames(ours: CompiledFrame | None, theirs: CompiledFrame | None) -> Iterator[Difference]:
    if ours is None or theirs is None or ours.status != theirs.status:
        yield Difference("frame", "", _status(ours), _status(theirs))
    if ours is None or theirs is None:
        return
    yield from _of_texts("graph break", *("; ".join(map(_break, frame.breaks)) for frame in (ours, theirs)))
    if found := _of_graphs(operators(ours, ours.graph), operators(theirs, theirs.graph)):
        yield Difference("graph", "", *found)
    yield from _of_texts("recompilation", _reasons(ours), _reasons(theirs))
    yield from _of_stages(ours, theirs)


def _of_texts(aspect: str, ours: str, theirs: str) -> Iterator[Difference]:
    if ours != theirs:
        yield Difference(aspect, "", ours or "none", theirs or "none")


def _of_stages(ours: CompiledFrame, theirs: CompiledFrame) -> Iterator[Difference]:
    for stage in STAGES:
        found_graphs = [_stage(frame, stage) for frame in (ours, theirs)]
        graphs = [operators(frame, graph) for frame, graph in zip((ours, theirs), found_graphs, strict=True)]
        if found := _of_graphs(*graphs):
            names = [[target for target, _ in graph] for graph in graphs]
            first, second = (f"{stage}: {text}" for text in found)
            yield Difference("AOT graph", "", first, second, known.decompositions(*names))


def _status(frame: CompiledFrame | None) -> str:
    return f"{frame.status} {frame.skip_reason}".strip() if frame is not None else "not compiled"


def _break(found: Break) -> str:
    return f"{found.title} (line {found.stack[-1].line})" if found.stack else found.title


def _reasons(frame: CompiledFrame) -> str:
    return "; ".join(sorted(re.sub(r"\s+", " ", failed.reason) for failed in frame.failed_guards))


def _stage(frame: CompiledFrame, stage: str) -> Graph | None:
    found = frame.compiled_graph.graphs if frame.compiled_graph else ()
    return next((graph for graph in found if graph.stage == stage), None)


def _of_graphs(ours: list[tuple[str, Node]], theirs: list[tuple[str, Node]]) -> tuple[str, str] | None:
    """The first operators that differ, with the number of both; None if the graphs agree."""
    names = [[f"{target} {_shape(node)}" for target, node in graph] for graph in (ours, theirs)]
    if sorted(names[0]) == sorted(names[1]):
        return None  # the order is free
    # Without ``autojunk``: from 200 operators on, difflib would ignore the most frequent ones.
    edits = [
        edit
        for edit in difflib.SequenceMatcher(None, names[0], names[1], autojunk=False).get_opcodes()
        if edit[0] != "equal"
    ]
    _, begin, end, other_begin, other_end = edits[0]
    sides = (names[0][begin:end], names[1][other_begin:other_end])
    texts = [", ".join(side[:3]) or "nothing there" for side in sides]
    return (f"{len(ours)} operators, {texts[0]}", f"{len(theirs)} operators, {texts[1]}")


def _shape(node: Node) -> str:
    if node.shape is None:
        return ""
    # Each compiler numbers symbols in its own way.
    return "[" + ", ".join(re.sub(r"^s\d+$", "s", size) for size in node.shape) + "]"


def _of_guards(location: str, pairs: Sequence[GuardPair], unmatched: Sequence[GuardPair]) -> Difference:
    counts = Counter(guard.status for guard in pairs)
    reasons = dict.fromkeys(guard.known for guard in unmatched)
    text = f"{counts[EQUAL]} conditions equal, {counts[ONLY_OURS]} that torch.compile has not"
    other = f"{counts[EQUAL]} conditions equal, {counts[ONLY_THEIRS]} that nbcompile has not"
    different = sum(guard.status not in (EQUAL, ONLY_OURS, ONLY_THEIRS) for guard in pairs)
    if different:
        text, other = f"{text}, {different} different", f"{other}, {different} different"
    return Difference("guards", location, text, other, "" if "" in reasons else "; ".join(reasons))
