"""Exercises about fusion by hand: kernels are lists of operators, and their memory traffic is counted.

    [["mul", "add"], ["sum_1"]]      mul is used by add only, so its result stays in a register

A kernel reads each input from other kernels once, and writes each value that others need. Its nodes have the same
iteration space; the result of a reduction is complete only after the kernel's loops.

In torch: torch/_inductor/scheduler.py (score_fusion_memory). Read next: nbcompile/teach/mini.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch

from nbcompile.record import links
from nbcompile.record.model import Node, Record
from nbcompile.teach import attempt
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.exercise_table import Exercise
from nbcompile.views import facts as words

REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "min", "prod")
LIBRARY_CALLS = ("matmul", "mm", "linear")
"""Operators that a library executes: nothing is fused with them."""


@dataclass(frozen=True, slots=True)
class Operators:
    """The operators of a graph, with the properties that decide about fusion."""

    nodes: dict[str, Node]
    """All nodes by id, including inputs."""
    names: dict[str, str]
    """The operators: name to id."""
    outputs: frozenset[str]

    def bytes_of(self, node: str) -> int:
        """Bytes of a tensor."""
        found = self.nodes[node]
        size = getattr(torch, found.dtype.removeprefix("torch.")).itemsize
        return math.prod(int(length) for length in found.shape or ()) * size

    def kind(self, node: str) -> str:
        """``sum``, ``matmul``, ``mul``, ..."""
        return words.short_target(self.nodes[node].target).rsplit(".", 1)[-1]

    def is_reduction(self, node: str) -> bool:
        """Return whether the operator reads a row, or the whole tensor, for one result."""
        return self.kind(node) in REDUCTIONS

    def space(self, node: str) -> tuple[str, ...]:
        """The iteration space; that of a reduction has the sizes of its operand."""
        source = self.nodes[node].inputs[0] if self.is_reduction(node) else node
        return self.nodes[source].shape or ()


def read(exercise: Exercise) -> tuple[Operators, Record]:
    """The operators of the exercise's function."""
    record = attempt.trace(exercise.reference_object("f"), exercise.arguments())
    graph = record.frames[0].graph
    assert graph is not None
    nodes = {node.id: node for node in graph.nodes}
    names = {node.name: node.id for node in links.operators(graph)}
    returned = frozenset(source for node in graph.nodes if node.op == "output" for source in node.inputs)
    return Operators(nodes, names, returned), record


def count_bytes(operators: Operators, kernels: list[list[str]]) -> int:
    """Bytes that the kernels read and write."""
    total = 0
    # Inside of a kernel a value is in a register: it is loaded only if it
    # comes from outside, and stored only if another kernel reads it.
    for kernel in kernels:
        inside = {operators.names[name] for name in kernel}
        loads = {source for node in inside for source in operators.nodes[node].inputs} - inside
        used_elsewhere = {
            source for node in operators.names.values() if node not in inside for source in operators.nodes[node].inputs
        }
        stores = inside & (used_elsewhere | operators.outputs)
        total += sum(map(operators.bytes_of, loads | stores))
    return total


def expect_legal(operators: Operators, kernels: list[list[str]]) -> None:
    """Reject kernels that cannot be one loop nest each, or that depend on each other."""
    for kernel in kernels:
        _expect_one_nest(operators, kernel)
    owner = {operators.names[name]: number for number, kernel in enumerate(kernels) for name in kernel}
    needs = nx.DiGraph(
        (owner[source], owner[node]) for node in owner for source in operators.nodes[node].inputs
        if source in owner and owner[source] != owner[node]
    )  # fmt: skip
    cycle = next(nx.simple_cycles(needs), None)
    if cycle:
        first, second = kernels[cycle[0]], kernels[cycle[-1]]
        raise Rejection(f"the kernels {', '.join(first)} and {', '.join(second)} need each other: there is a cycle.")


def _expect_one_nest(operators: Operators, kernel: list[str]) -> None:
    """Reject a kernel that cannot be one loop nest."""
    nodes = [operators.names[name] for name in kernel]
    calls = [operators.kind(node) for node in nodes if operators.kind(node) in LIBRARY_CALLS]
    if calls and len(nodes) > 1:
        raise Rejection(f"`{calls[0]}` is executed by a library and can share no kernel: {', '.join(kernel)}.")
    spaces = {operators.space(node) for node in nodes}
    if len(spaces) > 1:
        shown = " and ".join(sorted(f"({', '.join(space)})" for space in spaces))
        raise Rejection(f"the kernel {', '.join(kernel)} would need two iteration spaces, {shown}.")
    for name in kernel:
        late = [source for source in operators.nodes[operators.names[name]].inputs if source in nodes]
        if any(operators.is_reduction(source) for source in late):
            raise Rejection(f"`{name}` needs a reduction of its own kernel, which is complete only after the loops.")


def least_bytes(operators: Operators) -> int:
    """The minimum bytes of all legal partitions, which are all tried: graphs of exercises are small."""
    best = count_bytes(operators, [[name] for name in operators.names])
    for kernels in _partitions(list(operators.names)):
        try:
            expect_legal(operators, kernels)
        except Rejection:
            continue
        best = min(best, count_bytes(operators, kernels))
    return best


def _partitions(names: list[str]) -> Iterator[list[list[str]]]:
    if not names:
        yield []
        return
    # The first name is in its own kernel, or in one of the kernels of a partition of the rest.
    first, rest = names[0], names[1:]
    for kernels in _partitions(rest):
        yield [[first], *kernels]
        for index in range(len(kernels)):
            yield [*kernels[:index], [first, *kernels[index]], *kernels[index + 1 :]]


def facts(exercise: Exercise) -> str:
    """A table of the operators, and the bytes without fusion."""
    operators, _ = read(exercise)
    rows = [
        f"| `{name}` | {', '.join(operators.nodes[source].name for source in operators.nodes[node].inputs)} "
        f"| ({', '.join(operators.space(node))}) | {operators.bytes_of(node)} |"
        for name, node in operators.names.items()
    ]
    unfused = count_bytes(operators, [[name] for name in operators.names])
    head = ["| operator | reads | iteration space | bytes of the result |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, "", f"With a kernel for each operator: {unfused} bytes are read and written."])


def check(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check that an answer is a legal partition of the operators that moves as few bytes as possible."""
    operators, record = read(exercise)
    kernels = _expect_partition(operators, answer)
    expect_legal(operators, kernels)
    moved, least = count_bytes(operators, kernels), least_bytes(operators)
    unfused = count_bytes(operators, [[name] for name in operators.names])
    if moved > least:
        raise Rejection(
            f"these kernels move {moved} bytes of {unfused} without fusion. It can be done with {least}.", record
        )
    return f"{len(kernels)} kernels move {moved} bytes; without fusion they were {unfused}.", record


def _expect_partition(operators: Operators, answer: Any) -> list[list[str]]:
    if not _is_list_of(_is_list_of_names, answer):
        raise Rejection('expected a list of kernels, each a list of names: [["mul", "add"], ["sum_1"]].')
    kernels = [list(kernel) for kernel in answer if kernel]
    given = [name for kernel in kernels for name in kernel]
    for name in given:
        if name not in operators.names:
            raise Rejection(f"there is no operator `{name}`. They are: {', '.join(operators.names)}.")
        if given.count(name) > 1:
            raise Rejection(f"`{name}` is in two kernels.")
    absent = [name for name in operators.names if name not in given]
    if absent:
        raise Rejection(f"`{absent[0]}` is in no kernel.")
    return kernels


def _is_list_of(is_item: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_item, value))


def _is_list_of_names(value: Any) -> bool:
    return _is_list_of(lambda item: isinstance(item, str), value)
