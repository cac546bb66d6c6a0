"""Follow the ids of a record: from a piece of source down to a kernel line, and back.

    line 3   y = torch.sin(x) * 2
             ~~~~~~~~~~~~            0/0.n1 sin     instruction 14 CALL
             ~~~~~~~~~~~~~~~~        0/0.n2 mul     instruction 24 BINARY_OP *
      0/0.n1, 0/0.n2                           nodes of the captured graph
        0/0.inference.n1, 0/0.inference.n2     nodes of the ATen graph
          buf0                                 loop-level IR
            kernel0, lines 5 and 6             generated code

Each entry names only the entries that it was derived *from*; all other directions are computed here, so that no stage
keeps maps for the views.

In torch: torch/_inductor/debug.py (create_mapping_pre_post_grad_nodes) keeps
such maps between pairs of stages. Read next: nbcompile/views/__init__.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbcompile.record.model import Break, CompiledFrame, Graph, Kernel, Node, Record, StackLine

# --- one frame: lines, nodes, buffers, kernels -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line and the operators that its execution called."""

    begin: int
    end: int
    """Columns of the source line, including its indentation."""
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FrameLinks:
    """Cross-references between the entries of one frame. Built by :func:`frame_links`."""

    frame: CompiledFrame
    origins: Mapping[str, tuple[str, ...]]
    """Id or name of a node, buffer or kernel -> captured nodes it computes."""
    by_line: Mapping[int, tuple[str, ...]]
    """Line of the frame's own source -> operators that it called."""
    spans: Mapping[int, tuple[Span, ...]]
    """Parts of each line, where columns are known, in order; they nest."""
    by_instruction: Mapping[int, tuple[str, ...]]
    """Offset of an instruction of the frame -> operators that it called."""

    def captured(self, *ids: str) -> tuple[str, ...]:
        """The captured nodes that these nodes, buffers or kernels compute."""
        return _unique(origin for each in ids for origin in self.origins.get(each, ()))

    def lines(self, *ids: str) -> tuple[int, ...]:
        """The lines of the frame's own source that these ids come from."""
        selected = set(self.captured(*ids))
        return tuple(line for line, nodes in sorted(self.by_line.items()) if selected & set(nodes))

    def derived_names(self, node: str) -> tuple[str, ...]:
        """Names of everything in later stages that computes a captured node, in order of the stages."""
        return tuple(each for each, nodes in self.origins.items() if node in nodes and each != node)


def frame_links(frame: CompiledFrame) -> FrameLinks:
    """Derive all directions for one frame."""
    origins: dict[str, tuple[str, ...]] = {}
    by_line: dict[int, list[str]] = {}
    pieces: dict[int, dict[tuple[int, int], list[str]]] = {}
    by_instruction: dict[int, list[str]] = {}
    #     line 3 of the user ── node n2 ── ATen node ── buffer buf0 ── kernel0 ── line 7 of its text
    # A record has arrows to the left only: each entry names its origins. Here the opposite direction is added.
    graph = traced(frame)
    for node in graph.nodes if graph else ():
        origins[node.id] = (node.id,)
    for node in operators(graph):
        at = own_location(frame, node.stack)
        if at is None:
            continue
        by_line.setdefault(at.line, []).append(node.id)
        if at.column >= 0:
            pieces.setdefault(at.line, {}).setdefault((at.column, at.end_column), []).append(node.id)
        if at.offset >= 0:
            # The second half of what newer versions fold into one instruction has the odd offset.
            by_instruction.setdefault(at.offset // 2 * 2, []).append(node.id)
    # In the order of the stages, so that the origins of an entry are resolved before the entry.
    for names, parents in _derivations(frame):
        found = _unique(origin for each in parents for origin in origins.get(each, ()))
        for name in names:
            # A node and a buffer may share a name, never an id.
            origins[name] = _unique((*origins.get(name, ()), *found))
    return FrameLinks(
        frame,
        origins,
        {line: tuple(nodes) for line, nodes in by_line.items()},
        {line: tuple(_spans(frame, line, found)) for line, found in pieces.items()},
        {offset: tuple(nodes) for offset, nodes in by_instruction.items()},
    )


def _spans(frame: CompiledFrame, line: int, pieces: Mapping[tuple[int, int], list[str]]) -> Iterator[Span]:
    text = frame.source.split("\n")[line - frame.first_line]
    indent = len(text) - len(text.lstrip())
    # Of parts with the same beginning the longest is first: outer before inner.
    for begin, end in sorted(pieces, key=lambda piece: (piece[0], -piece[1])):
        yield Span(indent + begin, indent + end, tuple(pieces[begin, end]))


def _derivations(frame: CompiledFrame) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Names of everything derived from the captured graph, with the nodes that it comes from."""
    compiled = frame.compiled_graph
    if compiled is None:
        return
    for graph in compiled.graphs:
        for node in graph.nodes:
            yield (node.id,), node.from_nodes
    for buffer in compiled.buffers:
        yield (buffer.id, buffer.name), buffer.from_nodes
    for kernel in compiled.kernels:
        yield (kernel.id,), (*kernel.from_nodes, *kernel.buffers)


def kernel_line_nodes(links: FrameLinks, kernel: Kernel) -> dict[int, tuple[str, ...]]:
    """Line of a kernel's text (1-based) -> captured nodes that it computes."""
    return {each.line: links.captured(*each.nodes) for each in kernel.lines}


def library(file: str) -> str:
    """A file that belongs to a library, ours too: ``torch/optim/optimizer.py``; "" for one of the user's."""
    if file.startswith(_OURS):
        return f"nbcompile/{file[len(_OURS) :]}"
    found = _LIBRARY.search(file.replace("\\", "/"))
    return found[1] if found else ""


_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages|python3\.\d+)/(?!site-packages|dist-packages)(.+\.py)$")


def is_generated(file: str) -> bool:
    """True for the name of generated code without a file: ``nbcompile/dispatch/<Linear: call of net>``."""
    return file.endswith(">")


def to_users_line(stack: tuple[StackLine, ...]) -> tuple[StackLine, ...]:
    """A stack up to the innermost line of the user's own; empty if all lines are in libraries."""
    last = max((index for index, each in enumerate(stack) if not library(each.file)), default=-1)
    return stack[: last + 1]


def own_line(frame: CompiledFrame, stack: tuple[StackLine, ...]) -> int | None:
    """The line of the frame's own source in a user stack; None if it has none there."""
    location = own_location(frame, stack)
    return None if location is None else location.line


def own_location(frame: CompiledFrame, stack: tuple[StackLine, ...]) -> StackLine | None:
    """First line of a user stack, so the outermost, that is in the frame's own source; None if there is none."""
    # The outermost such line: for an inlined call, the line of the frame that contains the call.
    end = frame.first_line + frame.source.rstrip("\n").count("\n") + 1
    for line in stack:
        if line.file == frame.file and frame.first_line <= line.line < end:
            return line
    return None


def traced(frame: CompiledFrame) -> Graph | None:
    """The captured graph, or what was traced of a frame that was not compiled."""
    return frame.graph or frame.unfinished


def graphs(frame: CompiledFrame) -> tuple[Graph, ...]:
    """The captured graph and the graphs derived from it, in order."""
    first = (frame.graph,) if frame.graph else ()
    return (*first, *(frame.compiled_graph.graphs if frame.compiled_graph else ()))


def operators(graph: Graph | None) -> tuple[Node, ...]:
    """The nodes that compute something: no inputs, attributes or output."""
    if graph is None:
        return ()
    return tuple(node for node in graph.nodes if node.op in ("call_function", "call_method", "call_module"))


# --- several frames: the call tree, and breaks with one cause -------------------------------------


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A frame and the frames that its residual program led to."""

    frame: CompiledFrame
    role: str
    """``called``, ``resumes`` (a resume function of its parent) or ``""`` for a root."""
    children: tuple[TreeNode, ...] = ()


def resume_tree(record: Record) -> tuple[TreeNode, ...]:
    """The frames as trees: the children of a frame are those that its residual program called.

    A frame whose parent is not in the record, or comes after it, is a root:
    every frame is in the result exactly once.
    """
    # Reversed, because the last item of a key stays in a dict: several frames may have one id, and the first is meant.
    first_index = {frame.id: index for index, frame in reversed(list(enumerate(record.frames)))}
    # A parent must come earlier in the record. So a record from a file cannot make the tree go in cycles.
    children: dict[int | None, list[int]] = {}
    for index, frame in enumerate(record.frames):
        parent = first_index.get(frame.called_from or frame.resumes)
        children.setdefault(parent if parent is not None and parent < index else None, []).append(index)

    def grow(index: int, role: str) -> TreeNode:
        below = children.get(index, ())
        roles = ("resumes" if record.frames[each].resumes == record.frames[index].id else "called" for each in below)
        return TreeNode(record.frames[index], role, tuple(map(grow, below, roles)))

    return tuple(grow(index, "") for index in children.get(None, ()))


@dataclass(frozen=True, slots=True)
class DistinctBreak:
    """One cause, and every frame that it ended."""

    cause: Break
    frames: tuple[str, ...]
    """Compile ids, in order; a nested break ends one frame per level."""
    breaks: tuple[str, ...]
    """Ids of all the breaks that are this one."""


def distinct_breaks(record: Record) -> tuple[DistinctBreak, ...]:
    """Graph breaks grouped by cause, in order of first appearance.

    Two breaks have one cause if the later one refers to the earlier one (``first_seen``), or if they have the same kind
    at the same line of the user's code.
    """
    folded: dict[object, list[tuple[Break, str]]] = {}
    keys: dict[str, object] = {}
    for frame in record.frames:
        for entry in frame.breaks:
            # The innermost line: the break is the same for all callers of the function.
            location = (entry.stack[-1].file, entry.stack[-1].line) if entry.stack else (entry.context,)
            # The compiler's own reference has priority: it recognises a break that occurs again in a resume function.
            key = keys.get(entry.first_seen) or (entry.kind, entry.title, *location)
            keys[entry.id] = key
            folded.setdefault(key, []).append((entry, frame.id))
    return tuple(
        DistinctBreak(same[0][0], _unique(frame for _, frame in same), _unique(each.id for each, _ in same))
        for same in folded.values()
    )


def explaining(kind: str) -> str:
    """The command that shows the page of a kind of break, without a network: ``NB0001``."""
    return f"python -m nbcompile explain {kind}"


def cause_of(breaking: Break, distinct: tuple[DistinctBreak, ...]) -> int:
    """The position (from 0) of a break's cause among the distinct ones of its record."""
    return next(index for index, each in enumerate(distinct) if breaking.id in each.breaks)


def entries(record: Record) -> tuple[tuple[CompiledFrame, ...], ...]:
    """The frames by code object, in order: more than one in a group are recompiles."""
    groups: dict[str, list[CompiledFrame]] = {}
    for frame in record.frames:
        groups.setdefault(frame.id.partition("/")[0], []).append(frame)
    return tuple(map(tuple, groups.values()))


def resumed_function(record: Record, frame: CompiledFrame) -> tuple[CompiledFrame, int] | None:
    """Parent frame and line of a resume function's frame; None for other frames."""
    for parent in record.frames:
        if parent.id == frame.resumes:
            for function in parent.resume_functions:
                if function.name == frame.function:
                    return parent, function.line
    return None


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
