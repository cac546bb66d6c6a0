"""Records of programs, one for each situation that a view must show well, and parts of records.

The records are those that a compile made of the programs of sample_programs.py, kept as JSON in samples/: the views are
tested without compiling anything, on records that are alike on every machine. test_sample_records.py compiles the
programs again and compares; ``pytest tests/views/test_sample_records.py --update`` writes them anew.

In torch: nothing. Read next: tests/views/sample_programs.py
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from nbcompile.record import codec
from nbcompile.record.model import CompiledFrame, Graph, Guard, Node, Record, StackLine
from tests.views.sample_programs import ENVIRONMENT, FILE

SAMPLES = Path(__file__).with_name("samples")


def line(number: int, function: str, code: str, mark: str = "", offset: int = -1) -> StackLine:
    """A stack line with the columns of ``mark`` in the code."""
    start = code.find(mark) if mark else -1
    return StackLine(FILE, number, function, code, start, start + len(mark) if start >= 0 else -1, offset)


def node(
    graph: str,
    index: int,
    name: str,
    op: str,
    target: str,
    arguments: str,
    reads: Sequence[int] = (),
    *,
    shape: tuple[str, ...] | None = ("8",),
    source: str = "",
    stack: tuple[StackLine, ...] = (),
    made_from: tuple[str, ...] = (),
) -> Node:
    stride = None if shape is None else tuple("1" for _ in shape)
    return Node(
        f"{graph}.n{index}",
        name,
        op,
        target,
        arguments,
        tuple(f"{graph}.n{each}" for each in reads),
        shape,
        stride,
        "float32" if shape is not None else "",
        "cpu" if shape is not None else "",
        source,
        stack,
        made_from,
    )


def tensor_guard(compile_id: str, index: int, name: str, shape: str, stack: tuple[StackLine, ...]) -> Guard:
    condition = (
        f"check_tensor(L['{name}'], Tensor, float32, device=cpu, requires_grad=False, size=[{shape}], stride=[1])"
    )
    words = f"{name} is a tensor of the same kind with sizes ({shape})"
    return Guard(f"{compile_id}.g{index}", "TENSOR_MATCH", f"L['{name}']", condition, words, stack)


@functools.cache
def compiled(name: str) -> Record:
    """The record of a program of sample_programs.py."""
    return codec.from_json((SAMPLES / f"{name}.json").read_text())


def simple() -> Record:
    """A record with one function, one graph, one kernel."""
    return compiled("simple")


def simple_frame() -> CompiledFrame:
    """The frame of that record."""
    return simple().frames[0]


def save_break() -> Record:
    """A record with ``torch.save`` in the middle: two graphs, one break, one resume function."""
    return compiled("save_break")


def nested() -> Record:
    """A record of ``f -> inner2 -> inner1`` with a break in ``inner1``: one cause, six frames."""
    return compiled("nested")


def recompiled() -> Record:
    """A record with a second shape, then another number: static, then dynamic, then a number as an input."""
    return compiled("recompiled")


def skipped() -> Record:
    """A record with a frame that runs eagerly as a whole, and one whose compilation failed."""
    return compiled("skipped")


def mutating() -> Record:
    """A record with a side effect that is replayed, and an operator that runs through ATen."""
    return compiled("mutating")


def without_compiler() -> Record:
    """A record without a C++ compiler: the graph runs through ATen."""
    return compiled("without_compiler")


def empty() -> Record:
    """A record in which nothing was compiled."""
    return Record("f")


def long_chain(length: int) -> Record:
    """A graph of many operators over few lines, as of a model with a loop."""
    source = "def chain(x):\n    for block in blocks:\n        x = x + 1\n        x = torch.relu(x)\n    return x\n"
    lines = (line(3, "chain", "x = x + 1"), line(4, "chain", "x = torch.relu(x)"))
    nodes = [node("0/0", 0, "l_x_", "placeholder", "L_x_", "()", source="L['x']", stack=(lines[0],))]
    nodes += [
        node(
            "0/0",
            index,
            f"x_{index}",
            "call_function",
            ("torch.relu", "operator.add")[index % 2],
            f"(x_{index - 1})",
            (index - 1,),
            stack=(lines[1 - index % 2],),
        )
        for index in range(1, length)
    ]
    nodes.append(node("0/0", length, "output", "output", "output", f"((x_{length - 1},),)", (length - 1,), shape=None))
    code = "def forward(self, L_x_):\n" + "".join(f"    x_{index} = op(x_{index - 1})\n" for index in range(1, length))
    graph = Graph("0/0.captured", "captured", tuple(nodes), code)
    guards = tuple(tensor_guard("0/0", index, f"blocks[{index}]", "8", lines[:1]) for index in range(length // 10))
    return Record(
        "chain",
        ENVIRONMENT,
        (CompiledFrame("0/0", "chain", FILE, 1, source, "compiled", "first call", graph=graph, guards=guards),),
    )


ALL = {
    "simple": simple,
    "save_break": save_break,
    "nested": nested,
    "recompiled": recompiled,
    "skipped": skipped,
    "mutating": mutating,
    "without_compiler": without_compiler,
    "empty": empty,
}
