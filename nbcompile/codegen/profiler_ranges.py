"""Describe the kernels and extern calls of an emitted program for profilers.

    profiler_ranges(graph_module, "inference", emitted)
        -> (("kernel0", ProfilerRange("inference.kernel0", "add, sin", (("", 2),))), ...)

In torch: torch/_inductor/codegen/common.py (the descriptive kernel names). Read next: nbcompile/ir/profiler_ranges.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch.fx

from nbcompile.capture.node_meta import STACK
from nbcompile.ir.buffer import Extern
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.profiler_ranges import OWN, FrameOrigin, ProfilerRange, current_origin
from nbcompile.record.model import StackLine

MOST_OPERATORS = 6
"""Maximum number of operators in the name of a range."""


def profiler_ranges(
    graph_module: torch.fx.GraphModule, stage: str, emitted: EmittedProgram
) -> tuple[tuple[str, ProfilerRange], ...]:
    """The range of each kernel and each extern call, by its name in the wrapper."""
    nodes = {node.name: node for node in graph_module.graph.nodes}
    origin = current_origin()
    steps: tuple[EmittedKernel | Extern, ...] = (*emitted.kernels, *emitted.externs)
    return tuple((step.name, _range(f"{stage}.{step.name}", step.from_nodes, nodes, origin)) for step in steps)


def _range(
    name: str, from_nodes: Iterable[str], nodes: Mapping[str, torch.fx.Node], origin: FrameOrigin
) -> ProfilerRange:
    known = [nodes[node] for node in from_nodes if node in nodes]
    operators = list(dict.fromkeys(_operator(node) for node in known))
    more = [f"{len(operators) - MOST_OPERATORS} more"] if len(operators) > MOST_OPERATORS else []
    lines = {line for node in known if (line := _line(node, origin)) is not None}
    return ProfilerRange(name, ", ".join([*operators[:MOST_OPERATORS], *more]), tuple(sorted(lines)))


def _operator(node: torch.fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(node.target, "__name__", str(node.target))


def _line(node: torch.fx.Node, origin: FrameOrigin) -> tuple[str, int] | None:
    """The innermost line of the frame's own file that led to a node; else the innermost line."""
    stack: tuple[StackLine, ...] = node.meta.get(STACK) or ()
    # The line that called a library function (F.relu) is more useful to a user than a line inside it.
    # Lines of the frame are relative to its first line.
    own = [line for line in stack if line.file == origin.file]
    if own:
        return OWN, own[-1].line - origin.first_line
    return (stack[-1].file, stack[-1].line) if stack else None
