"""Facts of a record that all views show, computed once for text and HTML.

    FailedGuard("0/0", "tensor 'x' size mismatch at index 0. expected 3, actual 4")
    refusal(...)  ->  what="size of tensor x", dimension="0", expected="3", actual="4"

In torch: nothing. Read next: nbcompile/views/text.py, the plainest reader of it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nbcompile.record import links, model
from nbcompile.record.model import (
    Break,
    CompiledFrame,
    FailedGuard,
    FusionDecision,
    Graph,
    Guard,
    Mutation,
    Node,
    Record,
    StackLine,
)
from nbcompile.views import costs, figures
from nbcompile.views.refusals import SIZE, guard_of, refusal, refused_value

# --- words -------------------------------------------------------------------------------------


def count(number: int, noun: str) -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bytes_saved(decision: FusionDecision) -> str:
    """Memory that is neither written nor read thanks to a fusion; "" where it is none, or depends on a call's sizes."""
    return f"{decision.saved:,} B" if decision.saved else ""


def stage(graph: Graph) -> str:
    """``forward``; ``submod_1 forward`` for a part of a graph that was split."""
    return f"{graph.part} {graph.stage}" if graph.part else graph.stage


def location(file: str, line: int) -> str:
    """``model.py:7``: the file's own name and the line; ``cell:7`` for a cell, whose file has a number for a name."""
    # Both separators: a record may have been written on another system.
    name = file.replace("\\", "/").rpartition("/")[2]
    if _CELL.search(file):
        name = "cell"
    return f"{name}:{line}" if name else f"line {line}"


_CELL = re.compile(r"ipykernel_\d+[/\\]\d+\.py$|^<ipython-input-.*>$")
"""File names of cells, in kernels and in IPython in a terminal."""


def library(frame: CompiledFrame) -> str:
    """The file of a function that belongs to a library: ``torch/optim/optimizer.py``; "" for one of the user's."""
    return links.library(frame.file)


def with_short_places(code: str) -> str:
    """The code of a graph without the folders of the user's files."""
    return _PLACE.sub(lambda found: f"# {location(found[1], int(found[2]))}, {found[3]}: ", code)


_PLACE = re.compile(r"# File: (.+):(\d+) in (.+?), code: ")
"""The user's line above a node, as torch writes it."""


@functools.lru_cache(4096)
def readable(expression: str) -> str:
    """An address as the user writes it: ``L['self']._modules['0']._parameters['weight']`` is ``self[0].weight``."""
    #     L['self']._modules['0']._parameters['weight']
    #     self._modules['0']._parameters['weight']          locals and globals by their names
    #     self[0]._parameters['weight']                     modules with a number as items
    #     self[0].weight                                    other members as attributes
    plain = re.sub(r"\b[LG]\['([A-Za-z_]\w*)'\]", r"\1", re.sub(r"^___from_numpy\((.*)\)", r"\1", expression))
    plain = re.sub(r"\._modules\['(\d+)'\]", r"[\1]", plain)
    return re.sub(r"\._(?:modules|parameters|buffers)\['([A-Za-z_]\w*)'\]", r".\1", plain)


_SHORT_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def type_of(node: Node) -> str:
    """``f32[4, 8]``, as torch annotates graphs; "" for what is no tensor."""
    if node.shape is None:
        return ""
    dtype = node.dtype.removeprefix("torch.")
    return f"{_SHORT_DTYPES.get(dtype, dtype)}[{', '.join(node.shape)}]"


def short_target(target: str) -> str:
    """The operator's own name: ``aten.add.Tensor`` and ``operator.add`` are ``add``."""
    parts = target.split("(", maxsplit=1)[0].split(".")
    #     torch.ops.aten.add.Tensor      the part after the namespace; what follows is the overload
    if "aten" in parts or "prims" in parts:
        return next((each for each in parts if each not in ("torch", "ops", "aten", "prims")), target)
    return parts[-1] or target


# --- a record in numbers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the summary."""

    number: int
    noun: str
    reference: str
    """Provenance of the number (figures.py)."""
    tone: str = ""
    """``warn`` or ``bad`` where the number should be 0."""


def recompilations(record: Record) -> int:
    """Number of recompilations: frames compiled because the guards of all older entries failed."""
    # A frame that was loaded has no failed guards of its own: its cause says that older entries refused.
    compiled = (frame for frame in record.frames if frame.status == "compiled")
    return sum(bool(frame.failed_guards) or frame.cause == "recompiled" for frame in compiled)


def tiles(record: Record) -> tuple[Tile, ...]:
    """The summary in numbers. A number that should be 0 and is, is still shown: it is news."""
    frames = record.frames
    compiled = [frame for frame in frames if frame.status == "compiled"]
    graphs = [frame.graph for frame in compiled if frame.graph is not None]
    kernels = [kernel.language == "aten" for frame in frames for kernel in _kernels(frame)]
    statuses = Counter(frame.status for frame in frames)
    breaks = links.distinct_breaks(record)
    recompiles = recompilations(record)
    always = (
        Tile(len(graphs), "graph", figures.GRAPHS),
        Tile(sum(len(links.operators(graph)) for graph in graphs), "operator", f"{figures.GRAPHS}.{figures.OPERATORS}"),
        Tile(len(breaks), "graph break", figures.DISTINCT, "warn" if breaks else ""),
        Tile(recompiles, "recompile", figures.RECOMPILED, "warn" if recompiles else ""),
        Tile(sum(len(frame.guards) for frame in compiled), "guard", "frames[status=compiled].guards"),
    )
    sometimes = (
        Tile(kernels.count(False), "kernel", f"frames.{figures.KERNELS}"),
        Tile(kernels.count(True), "ATen call", f"frames.{figures.CALLS}"),
        Tile(statuses["skipped"], "skipped frame", "frames[status=skipped]", "warn"),
        Tile(statuses["failed"], "failed frame", "frames[status=failed]", "bad"),
    )
    return (*always, *(tile for tile in sometimes if tile.number))


def _kernels(frame: CompiledFrame) -> tuple[model.Kernel, ...]:
    return frame.compiled_graph.kernels if frame.compiled_graph else ()


def is_tree(record: Record) -> bool:
    """Return whether any frame led to another; recompilations alone make no tree."""
    return any(node.children for node in links.resume_tree(record))


SEVERAL = 3
"""Number of entries of a function with the same graph from which on they are folded into the first."""


def name(frame: CompiledFrame) -> str:
    """The function as its caller knows it: a decorator's wrapper has the name of the method that it wraps."""
    return frame.method or frame.function


def repetitions(record: Record) -> dict[str, str]:
    """Frames of a code object that end as an earlier one does, with the same graph or none; that one, by id."""
    found: dict[str, str] = {}
    for group in links.entries(record):
        firsts: dict[object, str] = {}
        like: dict[str, str] = {}
        for frame in group:
            # A frame that ends in a graph break is like no other one: each of its breaks is to be seen.
            look: object = None
            if frame.status == "compiled" and not frame.breaks:
                look = tuple((node.op, node.target, node.shape) for node in frame.graph.nodes) if frame.graph else ()
            elif frame.status == "skipped":
                look = (frame.skip_reason, frame.instead, *((each.kind, each.stack) for each in frame.breaks))
            if look is not None:
                first = firsts.setdefault(look, frame.id)
                like |= {frame.id: first} if first != frame.id else {}
        # Two or three frames are shown in full; more of the same would hide what differs.
        found |= like if len(like) >= SEVERAL else {}
    return found


@dataclass(frozen=True, slots=True)
class Cause:
    """Recompilations that one value led to."""

    about: str
    """``tag``; ``size of tensor x, dimension 0``."""
    frames: tuple[CompiledFrame, ...]
    values: tuple[str, ...]
    """Values by entry, as far as the failed guards show them."""

    @property
    def recompiled(self) -> int:
        """Number of calls that were compiled: the one that reaches the recompilation limit is not."""
        return sum(each.status == "compiled" for each in self.frames)


def causes(record: Record, frames: Iterable[CompiledFrame]) -> tuple[Cause, ...]:
    """Recompilations of one function by the value that each of their refusals is about; others by themselves."""
    groups: dict[object, list[CompiledFrame]] = {}
    for frame in frames:
        about = {_about(record, each) for each in frame.failed_guards}
        # Entries of one code object that all refuse for one value are one cause; a refusal for several is its own.
        key = (frame.id.partition("/")[0], *about) if len(about) == 1 else frame.id
        groups.setdefault(key, []).append(frame)
    return tuple(
        Cause(
            _about(record, same[0].failed_guards[0]),
            tuple(same),
            tuple(dict.fromkeys(refused_value(record, each) for frame in same for each in frame.failed_guards)),
        )
        for same in groups.values()
    )


def _about(record: Record, failed: FailedGuard) -> str:
    """The value that a refusal is about."""
    no, guard = refusal(record, failed), guard_of(record, failed)
    if no.dimension:
        return f"{no.what}, dimension {no.dimension}"
    source = readable(failed.source or (guard.source if guard is not None else ""))
    if size := SIZE.fullmatch(source):
        return f"size of tensor {size['tensor']!r}, dimension {size['dim']}"
    return source or no.what


def environment(record: Record) -> str:
    """``Python 3.11.9 · torch 2.13.0 · ...``: what the record is true of."""
    env = record.environment
    known = (
        ("Python", env.python),
        ("torch", env.torch),
        ("nbcompile", env.nbcompile),
        ("", env.compiler),
        ("", env.device),
    )
    return " · ".join(f"{name} {value}".strip() for name, value in known if value)


# --- the user's source, line by line -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that happened at a line."""

    kind: str
    """``operators``, ``kernels``, ``fallback``, ``cost``, ``inlined``, ``break``, ``mutation``, ``resume``,
    ``guards`` or ``later``."""
    text: str
    reference: str = ""
    """Provenance of its numbers (figures.py)."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's function and what became of it."""

    number: int
    code: str
    notes: tuple[Note, ...]
    nodes: tuple[str, ...]
    """Captured nodes, by id."""
    elsewhere: bool
    """Not traced in this frame: before a resume function begins, or after a break."""
    carets: str = ""
    """Below the piece of the line that raised."""


def source_lines(record: Record, frame: CompiledFrame, found: links.FrameLinks) -> tuple[SourceLine, ...]:
    """The annotated source of a frame; empty where its source is unknown."""
    if not frame.source:
        return ()
    notes = _notes(record, frame, found)
    resumed = links.resumed_function(record, frame)
    begins = resumed[1] if resumed else frame.first_line
    code = enumerate(frame.source.rstrip("\n").split("\n"), frame.first_line)
    return tuple(
        SourceLine(
            number, text, tuple(notes.get(number, ())), found.by_line.get(number, ()),
            # Loops make "after the break" undecidable from lines alone; only what ran before is sure.
            elsewhere=frame.first_line < number < begins and number not in notes,
        )
        for number, text in code
    )  # fmt: skip


def _notes(record: Record, frame: CompiledFrame, found: links.FrameLinks) -> dict[int, list[Note]]:
    notes: dict[int, list[Note]] = {}

    def add(line: int | None, kind: str, text: str, reference: str = "") -> None:
        if line is not None:
            notes.setdefault(line, []).append(Note(kind, text, reference))

    resumed = links.resumed_function(record, frame)
    if resumed:
        add(resumed[1], "resume", f"resumes after {resumed[0].id} ended here")
    _operator_notes(frame, found, add)
    for mutation in frame.mutations:
        add(links.own_line(frame, mutation.stack), "mutation", f"replayed: {replayed(frame, mutation)[1]}")
    for graph_break in frame.breaks:
        add(links.own_line(frame, graph_break.stack), "break", named_once(f"graph break: {graph_break.title}"))
    # A guard belongs to the line that asked: the first use of a value, or a branch on a size.
    guarded = Counter(links.own_line(frame, guard.stack) for guard in frame.guards)
    for line, number in guarded.items():
        add(line, "guards", count(number, "guard"), f"guards|line.{line}")
    for later in resumed_frames(record, frame):
        for line, ids in links.frame_links(later).by_line.items():
            # Lines that this frame ran as well have its own notes; only those that were left over are "later".
            if line not in found.by_line:
                ran = {node.id: node for node in links.operators(links.traced(later))}
                add(line, "later", f"{shortened(short_target(ran[node].target) for node in ids)} in {later.id}")
    return notes


def _operator_notes(frame: CompiledFrame, found: links.FrameLinks, add: Callable[..., None]) -> None:
    """Add notes on what was traced at each line, and what runs it."""
    nodes = {node.id: node for node in links.operators(links.traced(frame))}
    only_traced = "" if frame.graph else "traced, not compiled: "
    for line, ids in found.by_line.items():
        callees = dict.fromkeys(nodes[node].stack[-1].function for node in ids if _is_inlined(nodes[node], line))
        if callees:
            add(line, "inlined", "traced into " + ", ".join(callees))
        more = f"{'graph' if frame.graph else 'unfinished'}.nodes|line.{line}|beyond.5" if len(ids) > 5 else ""
        add(line, "operators", only_traced + shortened(short_target(nodes[node].target) for node in ids), more)
        kernels, fallbacks = _run_by(frame, found, ids)
        if kernels:
            add(line, "kernels", f"in {shortened(kernels, 3)}")
        if fallbacks:
            add(line, "fallback", f"{shortened(fallbacks, 3)} by ATen")
        if moved := costs.of_line(frame, ids):
            add(line, "cost", f"{costs.words(moved)} in eager", f"graph.nodes|bytes.{line}")


def replayed(frame: CompiledFrame, mutation: Mutation) -> tuple[str, str]:
    """The object that a side effect changes and the statement, by the user's name where the program has one of its own.

    ``value = calls`` and then ``value.extend([1])`` are ``calls.extend([1])``.
    """
    target = readable(mutation.target)
    # The residual program binds objects to names of its own before it changes them; readers know them by the user's.
    given = re.search(rf"^\s*{re.escape(target)} = ([A-Za-z_][\w.\[\]'\"]*)$", frame.residual, re.MULTILINE)
    if given is None or not mutation.code.startswith((f"{target}.", f"{target}[")):
        return target, mutation.code
    return given[1], given[1] + mutation.code.removeprefix(target)


def _run_by(frame: CompiledFrame, found: links.FrameLinks, ids: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Kernels and extern calls that compute some captured nodes."""
    kernels = frame.compiled_graph.kernels if frame.compiled_graph else ()
    mine = [each for each in kernels if set(ids) & set(found.captured(each.id))]
    generated = [each.name for each in mine if each.language != "aten"]
    return generated, list(dict.fromkeys(short_target(each.name) for each in mine if each.language == "aten"))


def resumed_frames(record: Record, frame: CompiledFrame) -> tuple[CompiledFrame, ...]:
    """The frames that go on where a frame ended, each with the one after it; of the same function, in order."""
    found, ends = [], {frame.id}
    for resumed in record.frames:
        if resumed.resumes in ends and resumed.file == frame.file and resumed.first_line == frame.first_line:
            ends.add(resumed.id)
            found.append(resumed)
    return tuple(found)


def _is_inlined(node: Node, line: int) -> bool:
    return len(node.stack) > 1 and node.stack[-1].line != line


def shortened(names: Iterable[str], most: int = 5) -> str:
    """``sin, mul, relu``; a long list ends in how many more there are."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


# --- guards and refusals -----------------------------------------------------------------------


def guard_groups(frame: CompiledFrame) -> tuple[tuple[str, tuple[Guard, ...]], ...]:
    """The guards by what they are about, a value's name or words in parentheses: the user's values first."""
    groups: dict[str, list[Guard]] = {}
    for guard in frame.guards:
        groups.setdefault(readable(guard.source) or _ABOUT.get(guard.kind, PROCESS), []).append(guard)
    # False sorts before True: values, then relations between values, then the state of the process.
    ordered = sorted(groups, key=lambda about: (about == PROCESS, about.startswith("(")))
    return tuple((about, tuple(groups[about])) for about in ordered)


PROCESS = "(state of the process)"
"""Subjects of guards on no value of the user's: they come last."""
_ABOUT = {
    "SHAPE_ENV": "(sizes and numbers)",
    "NO_TENSOR_ALIASING": "(several values)",
    "NO_OBJECT_ALIASING": "(several values)",
}
"""Subjects of the kinds of guards that are not about a single value."""


def remedies(failed: FailedGuard) -> list[str]:
    """Origin of the failed guard, and advice that would have prevented the recompilation, if known."""
    found = [f"why: {failed.note}"] if failed.note else []
    if failed.advice is not None:
        tried = " (tried: it helps)" if failed.advice.verified else ""
        found.append(f"advice: {failed.advice.text}{tried}")
    return found


def remedies_of(cause: Cause) -> list[str]:
    """Remedies of all failed guards of a cause, without duplicates and without those that another one contains."""
    failed = (one for frame in cause.frames for one in frame.failed_guards)
    #     "use x"   "use x; or y"      the first is said by the second already
    found = list(dict.fromkeys(text for one in failed for text in remedies(one)))
    return _folded([text for text in found if not any(other != text and other.startswith(text) for other in found)])


_COMPARED = re.compile(r"(.*: the program compares )(\(.*?\))(| \(tried: it helps\)|; or config.*)")


def _folded(remedies: list[str]) -> list[str]:
    """Remedies that differ only in the condition that the program compares, in one sentence with all conditions."""
    conditions: dict[tuple[str, str], list[str]] = {}
    for text in remedies:
        before, condition, after = found.groups() if (found := _COMPARED.fullmatch(text)) else (text, "", "")
        conditions.setdefault((before, after), []).append(condition)
    return [before + shortened(same) + after for (before, after), same in conditions.items()]


def is_storm(record: Record) -> bool:
    """Return whether one value caused so many recompilations that they are summarised."""
    return any(
        len(cause.frames) >= SEVERAL for cause in causes(record, [one for one in record.frames if one.failed_guards])
    )


def is_incidental(frame: CompiledFrame) -> bool:
    """Return whether a frame is of generated code without source (as in libraries), in which nothing was traced."""
    return (
        frame.status == "skipped" and not frame.source and not frame.breaks and not links.operators(links.traced(frame))
    )


def symbol_rows(frame: CompiledFrame) -> list[tuple[str, str, str, str]]:
    """Each symbol of a frame: its name, where it is read from, its value and range, what was assumed and where."""
    rows = []
    for symbol in frame.symbols:
        conditions = [f"{found.condition}{_at(found.stack)}" for found in symbol.refinements]
        range_ = symbol.range.replace("int_oo", "∞")
        known = f"{symbol.hint} in {range_}" if symbol.hint else f"known to the run, in {range_}"
        where = ", ".join(map(readable, symbol.sources)) or symbol.origin
        rows.append((symbol.name, where, known, "; ".join(conditions)))
    return rows


def _at(stack: tuple[StackLine, ...]) -> str:
    return f" ({location(stack[-1].file, stack[-1].line)})" if stack else ""


# --- stacks and breaks -------------------------------------------------------------------------


def carets(line: StackLine) -> str:
    """The underline of the expression inside the line; "" where its columns are unknown."""
    end = min(line.end_column, len(line.code))  # a record from a file may hold any number
    if 0 <= line.column < end:
        return " " * line.column + "^" * (end - line.column)
    return ""


def break_label(index: int) -> str:
    """Label of a distinct break on the page."""
    return f"B{index + 1}"


def ended_by(frame: CompiledFrame, distinct: tuple[links.DistinctBreak, ...]) -> str:
    """End of a frame, in words."""
    why = f": {named_once(frame.skip_reason)}" if frame.skip_reason else ""
    # What became of the call: it ran eagerly, it raised, or compiling was interrupted before either.
    match frame.status, frame.instead:
        case "skipped", _:
            return f"ran eagerly as a whole{why}"
        case "failed", model.EAGER:
            return f"compilation failed, and it ran eagerly{why}"
        case "failed", model.RAISED:
            return f"did not run{why}"
        case "failed", model.INTERRUPTED:
            return f"did not run: compilation was {frame.skip_reason or 'interrupted'}"
        case "failed", _:
            return f"compilation failed{why}"
    if frame.breaks:
        graph_break = frame.breaks[0]
        line = links.own_line(frame, graph_break.stack)
        at = f" at line {line}" if line is not None else ""
        return f"ended by graph break {break_label(links.cause_of(graph_break, distinct))}{at}"
    return "ran to its return"


def named_once(reason: str) -> str:
    """A reason without a repetition of its first words (``graph break: graph break in loop``), and in plain words."""
    return re.sub(r"^graph break: (?=graph break)", "", _IN_PLAIN_WORDS.get(reason, reason))


_IN_PLAIN_WORDS = {
    f"graph break: {title}": "an operator fails while it is traced, and Python runs it"
    for title in (
        "NotImplementedError/UnsupportedFakeTensorException when running FX node",
        "TypeError when making fake tensor call",
    )
}
"""Titles of torch's that name its own classes."""


def inlined(frame: CompiledFrame) -> list[str]:
    """The functions that were traced into, each once, with the number of calls of each."""
    return [f"{name} ({number} times)" if number > 1 else name for name, number in Counter(frame.inlined).items()]


def without_graph(frame: CompiledFrame) -> str:
    """Sentence for a frame without a graph."""
    if frame.status == "compiled":
        return "No operator was met, so there is no graph."
    return "Not compiled, and no operator was traced: there is no graph."


_ONLY_WHILE_TRACED = frozenset({
    "DataDependentOutputException", "DynamicOutputShapeException", "Unsupported", "UnsupportedOperatorException",
})  # fmt: skip
"""Exceptions at operators that work in eager mode."""


def unfinished(frame: CompiledFrame) -> str:
    """Sentence for a partial graph, which was not compiled."""
    end = ""
    if frame.failed and frame.failed.node:
        outcome = "is not traced" if frame.failed.error in _ONLY_WHILE_TRACED else "fails"
        end = f" `{short_target(frame.failed.operator)}`, the last one, {outcome}."
    return f"Not compiled: this is what had been traced when tracing ended.{end}"


def is_chain(frame: CompiledFrame) -> bool:
    """Return whether a nested break ended it: each inlined function has its own resume function."""
    return len(frame.resume_functions) > 1 and not frame.resume_functions[-1].branch


def repeated(record: Record, distinct: links.DistinctBreak) -> str:
    """Number of times that one break was hit, and why: by every caller, if each frame is called by the one before."""
    frames = [frame for frame in record.frames if frame.id in distinct.frames]
    text = f"one cause, {count(len(frames), 'frame')} ended by it"
    stacks = [frame.breaks[0].stack for frame in frames]
    # Without nested graph breaks a break in an inlined function ends every frame on the stack,
    # one compile after another.
    # f calls g, and g breaks: the stacks are (f, g) and (g). Each is the one before without its outermost call.
    if len(frames) == 1 or any(below != above[1:] for above, below in itertools.pairwise(stacks)):
        return text
    reason = "since every caller meets it again"
    return f"{text}, {reason}. With config.nested_graph_breaks it is met once, in `{frames[0].function}`"


def what_breaks(graph_break: Break) -> str:
    """Description of the breaking line: ``calls `torch.save`, which is not traced``; "" if it is not a call."""
    if not graph_break.callee:
        return ""
    title = graph_break.title.rstrip(".").replace("`", "")
    return call_of(graph_break) + _WHY_CALLED.get(graph_break.kind, f" ({title})")


def call_of(graph_break: Break) -> str:
    """``calls `torch.save` ``; "" where the breaking line calls nothing."""
    callee = graph_break.callee.replace("`", "'")
    return f"calls `{callee if len(callee) <= MOST_CALLEE else '…' + callee[1 - MOST_CALLEE :]}`" if callee else ""


_NOT_TRACED = dict.fromkeys(("NB0002", "NB0003", "NB0009", "NB0010", "NB0017", "NB0021"), ", which is not traced")
_WHY_CALLED = {
    **_NOT_TRACED,
    "NB0001": ", which ends the graph",
    "NB0004": ", which is not traced with these arguments",
    "NB0024": ", which skips the frame",
    "NB0025": ", which skips the rest of the frame",
}
"""Kinds of breaks whose title says no more."""
MOST_CALLEE = 48
"""Characters of a callee: the end of a long one says most."""


def break_ids(graph_break: Break) -> str:
    """``NB0007 · GB0025``."""
    return " · ".join(filter(None, (graph_break.kind, graph_break.gb_id)))


def bytecode_counts(frame: CompiledFrame) -> str:
    """``31 instructions, 16 in their place``."""
    own, residual = len(frame.instructions), len(frame.residual_instructions)
    return count(own, "instruction") + (f", {residual} in their place" if residual else "")


def span(record: Record, frame: CompiledFrame) -> str:
    """Lines of the user's function that a frame covers: ``lines 2-3``."""
    if not frame.source:
        return ""
    last = frame.first_line + frame.source.rstrip("\n").count("\n")
    resumed = links.resumed_function(record, frame)
    first = resumed[1] if resumed else frame.first_line
    # A loop may break on a line before the one where this frame began: then it covers the rest of the function.
    stop = links.own_line(frame, frame.breaks[0].stack) if frame.breaks else None
    end = stop if stop is not None and stop >= first else last
    return f"lines {first}-{end}" if end > first else f"line {first}"
