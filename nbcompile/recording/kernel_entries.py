"""Entries of a compiled graph: its buffers, fusions, kernels and the lifetimes of its memory.

    Schedule of one kernel      ->      model.Kernel("k0", "add_relu", nodes, source, ...)
    buf0, used by k0 and k1     ->      model.Lifetime("buf0", bytes, first, last)

In torch: torch/_inductor/debug.py. Read next: nbcompile/recording/graph_record.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
import torch.fx

from nbcompile.ir.buffer import Extern, ExternOutput, GraphInput, Pointwise, Program, Reduction, Scan, Scatter, Tensor
from nbcompile.ir.emitted import EmittedProgram
from nbcompile.ir.kernel import Allocate, Free, Reuse, Schedule
from nbcompile.ir.printer import print_body, print_index
from nbcompile.record import model
from nbcompile.recording.entries import node_ids
from nbcompile.recording.spelling import dtype_name


@dataclass(frozen=True, slots=True)
class Labels:
    """Prefixes of ids and names of one ATen graph within the record of its frame."""

    prefix: str
    """Prefix of ids: ``0/0.forward.``"""
    group: str
    """Prefix of names: ``forward.`` or ``backward.`` if a frame has both, else empty."""
    nodes: Mapping[str, str]
    """Ids of the graph's nodes, by name."""

    def of_nodes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Ids for names of nodes."""
        return tuple(self.nodes[name] for name in names if name in self.nodes)


def labels(fx_graph: torch.fx.Graph, compile_id: str, stage: str) -> Labels:
    """The labels for one ATen graph."""
    group = "" if stage == "inference" else f"{stage}."
    return Labels(f"{compile_id}.{stage}.", group, node_ids(fx_graph, compile_id, stage))


def buffers(program: Program, names: Labels) -> tuple[model.Buffer, ...]:
    """Record entries of a program's buffers, without its inputs."""
    externs = {each.name: each for each in program.buffers if isinstance(each, Extern)}
    shown = [each for each in program.buffers if isinstance(each, (Pointwise, Reduction, Scan, Scatter, ExternOutput))]
    return tuple(_buffer(each, externs, names) for each in shown)


def _buffer(
    buffer: Pointwise | Reduction | Scan | Scatter | ExternOutput, externs: Mapping[str, Extern], names: Labels
) -> model.Buffer:
    body = print_body(buffer)
    if isinstance(buffer, ExternOutput):
        body = body.replace(buffer.extern, print_body(externs[buffer.extern]), 1)
    return model.Buffer(
        id=names.prefix + buffer.name,
        name=names.group + buffer.name,
        kind="extern" if isinstance(buffer, ExternOutput) else type(buffer).__name__.lower(),
        shape=tuple(print_index(each) for each in buffer.layout.size),
        dtype=dtype_name(buffer.dtype),
        body=body,
        from_nodes=names.of_nodes(buffer.from_nodes),
    )


def fusions(decisions: Iterable[model.FusionDecision], names: Labels) -> tuple[model.FusionDecision, ...]:
    """Record entries of the fusion log."""
    group = names.group
    return tuple(dataclasses.replace(each, first=group + each.first, second=group + each.second) for each in decisions)


def kernels(emitted: EmittedProgram, names: Labels) -> tuple[model.Kernel, ...]:
    """Record entries of the generated kernels and of the extern calls, with ids that are unique in the frame."""
    generated = [
        model.Kernel(
            names.prefix + kernel.name,
            # A template kernel that was written for a node has the name of its function, as in a profiler of a GPU.
            names.group + (kernel.function if kernel.parameters else kernel.name),
            kernel.language,
            kernel.source,
            tuple(names.prefix + buffer for buffer in kernel.buffers),
            names.of_nodes(kernel.from_nodes),
            tuple(dataclasses.replace(line, nodes=names.of_nodes(line.nodes)) for line in kernel.lines),
        )
        for kernel in emitted.kernels
    ]
    # An extern call has no text: its entry has the operator, and the reason why ATen runs it.
    called = [
        model.Kernel(
            names.prefix + extern.name,
            str(extern.target),
            "aten",
            "",
            (names.prefix + extern.name,),
            names.of_nodes(extern.from_nodes),
            (),
            extern.reason,
        )
        for extern in emitted.externs
    ]
    return (*generated, *called)


def lifetimes(planned: Schedule, names: Labels) -> tuple[model.Lifetime, ...]:
    """Record entries of the memory plan: each buffer that is freed, is allocated or reuses memory, in order."""
    tensors, launch = planned.program.tensors(), 0
    last: dict[str, int] = {}
    saved = [name for name, tensor in tensors.items() if isinstance(tensor, GraphInput) and tensor.donated]
    begun: list[tuple[str, int, str]] = [(name, 1, "") for name in saved]
    for step in planned.steps:
        match step:
            case Allocate(name):
                begun.append((name, launch + 1, ""))
            # The memory of the other buffer is reused: its live range ends at the last launch before, but not before
            # its beginning.
            case Reuse(name, given):
                begun.append((name, launch + 1, given))
                last[given] = max(launch, next((at for each, at, _ in begun if each == given), 0))
            case Free(name):
                last[name] = launch
            case _:
                launch += 1
    return tuple(
        model.Lifetime(
            names.group + name,
            _bytes(tensors[name]),
            first,
            last.get(name, 0),
            given and names.group + given,
            name in saved,
        )
        for name, first, given in begun
    )


def _bytes(tensor: Tensor) -> str:
    return print_index(tensor.layout.span * tensor.dtype.itemsize)


def wrapper(text: str, names: Labels) -> str:
    """The program that allocates and launches; a frame with two graphs has two, one below the other."""
    return f"# {names.group.rstrip('.')}\n{text}\n" if names.group else text
