"""Facts of a record that all views show, computed once for text and HTML.

    FailedGuard("0/0", "tensor 'x' size mismatch at index 0. expected 3, actual 4")
    guard_failure(...)  ->  what="size of tensor x", dimension="0", expected="3", actual="4"

In torch: nothing. Read next: nbcompile/views/text.py, the simplest user of it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nbcompile.record import links, model
from nbcompile.record.model import (
    CompiledFrame,
    FusionDecision,
    Graph,
    Guard,
    Node,
    Record,
    StackLine,
)
from nbcompile.views import figures

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


def with_short_locations(code: str) -> str:
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
    # A loaded frame has no failed guards of its own: its cause records that guards of older entries failed.
    compiled = (frame for frame in record.frames if frame.status == "compiled")
    return sum(bool(frame.failed_guards) or frame.cause == "recompiled" for frame in compiled)


def tiles(record: Record) -> tuple[Tile, ...]:
    """The summary in numbers. A number that should be 0 is shown even if it is 0."""
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
    """Return whether any frame called another; recompilations alone are no tree."""
    return any(node.children for node in links.resume_tree(record))


SEVERAL = 3
"""Number of entries of a function with the same graph from which on they are folded into the first."""


def name(frame: CompiledFrame) -> str:
    """The function's name for its caller: a decorator's wrapper has the name of the method that it wraps."""
    return frame.method or frame.function


def repetitions(record: Record) -> dict[str, str]:
    """Frames of a code object with the same end and graph (or none) as an earlier one: a map to that one, by id."""
    found: dict[str, str] = {}
    for group in links.entries(record):
        firsts: dict[object, str] = {}
        same_graph: dict[str, str] = {}
        for frame in group:
            # A frame that ends in a graph break is never folded, so that each break is shown.
            look: object = None
            if frame.status == "compiled" and not frame.breaks:
                look = tuple((node.op, node.target, node.shape) for node in frame.graph.nodes) if frame.graph else ()
            elif frame.status == "skipped":
                look = (frame.skip_reason, frame.instead, *((each.kind, each.stack) for each in frame.breaks))
            if look is not None:
                first = firsts.setdefault(look, frame.id)
                same_graph |= {frame.id: first} if first != frame.id else {}
        # Two or three frames are shown in full; more equal ones would hide the differences.
        found |= same_graph if len(same_graph) >= SEVERAL else {}
    return found


def environment(record: Record) -> str:
    """``Python 3.11.9 · torch 2.13.0 · ...``: the environment of the record."""
    env = record.environment
    known = (
        ("Python", env.python),
        ("torch", env.torch),
        ("nbcompile", env.nbcompile),
        ("", env.compiler),
        ("", env.device),
    )
    return " · ".join(f"{name} {value}".strip() for name, value in known if value)


def shortened(names: Iterable[str], most: int = 5) -> str:
    """``sin, mul, relu``; a long list ends with the number of omitted items."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


# --- guards ------------------------------------------------------------------------------------


def guard_groups(frame: CompiledFrame) -> tuple[tuple[str, tuple[Guard, ...]], ...]:
    """The guards by subject, a value's name or words in parentheses: the user's values first."""
    groups: dict[str, list[Guard]] = {}
    for guard in frame.guards:
        groups.setdefault(readable(guard.source) or _ABOUT.get(guard.kind, PROCESS), []).append(guard)
    # False sorts before True: values, then relations between values, then the state of the process.
    ordered = sorted(groups, key=lambda about: (about == PROCESS, about.startswith("(")))
    return tuple((about, tuple(groups[about])) for about in ordered)


PROCESS = "(state of the process)"
"""Subjects of guards that are not on a value of the user: they come last."""
_ABOUT = {
    "SHAPE_ENV": "(sizes and numbers)",
    "NO_TENSOR_ALIASING": "(several values)",
    "NO_OBJECT_ALIASING": "(several values)",
}
"""Subjects of the kinds of guards that are not about a single value."""


def is_incidental(frame: CompiledFrame) -> bool:
    """Return whether a frame is of generated code without source (as in libraries), in which nothing was traced."""
    return (
        frame.status == "skipped" and not frame.source and not frame.breaks and not links.operators(links.traced(frame))
    )


def symbol_rows(frame: CompiledFrame) -> list[tuple[str, str, str, str]]:
    """Each symbol of a frame: name, source, value and range, and the assumptions with their lines."""
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


def inlined(frame: CompiledFrame) -> list[str]:
    """The functions that were inlined, each once, with its number of calls."""
    return [f"{name} ({number} times)" if number > 1 else name for name, number in Counter(frame.inlined).items()]


def without_graph(frame: CompiledFrame) -> str:
    """Sentence for a frame without a graph."""
    if frame.status == "compiled":
        return "No operator was called, so there is no graph."
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


def bytecode_counts(frame: CompiledFrame) -> str:
    """``31 instructions before, 16 after``."""
    own, residual = len(frame.instructions), len(frame.residual_instructions)
    return count(own, "instruction") + (f" before, {residual} after" if residual else "")


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
