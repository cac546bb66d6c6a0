"""Programs that reproduce a fault of one graph."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tools.diagnose import reproducer


def graph() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(lambda x: torch.relu(x))


@pytest.mark.parametrize("engine", ["nbcompile", "torch"])
def test_the_program_runs_alone(engine):
    """The program compiles the graph with the backend of the search, and passes if the compiler is right."""
    text = reproducer.write(graph(), [torch.tensor([-1.0, 2.0])], "eager", engine, "value 0 differs")
    assert text.startswith("# value 0 differs\n")
    assert ("nbcompile.compile(" in text) is (engine == "nbcompile")
    exec(compile(text, "<program>", "exec"), {})  # noqa: S102 - what the user would run


def test_a_wrong_graph_fails():
    """The program compares with the eager graph, and raises if values differ."""
    text = reproducer.write(graph(), [torch.tensor([-1.0, 2.0])], "eager", "nbcompile", "")
    wrong = text.replace("found = ", "found = lambda *_: torch.zeros(2)\nfound = found() #")
    with pytest.raises(AssertionError):
        exec(compile(wrong, "<program>", "exec"), {})  # noqa: S102 - what the user would run


@pytest.mark.parametrize(
    ("value", "with_values", "expected"),
    [
        (torch.ones(2), True, "tensor([1.0, 1.0], dtype=torch.float32)"),
        (torch.ones(2, requires_grad=True), False, "torch.randn((2,), dtype=torch.float32, requires_grad=True)"),
        (torch.zeros(100, dtype=torch.bool), True, "torch.rand((100,)) > 0.5"),
        (torch.tensor([3, 7]), False, "torch.randint(3, 8, (2,), dtype=torch.int64)"),
        (torch.empty(0, dtype=torch.int64), False, "torch.randint(0, 1, (0,), dtype=torch.int64)"),
        (4, True, "4"),
    ],
    ids=["few elements", "without values", "many elements", "whole numbers", "no elements", "a number"],
)
def test_inputs_are_written_out_or_random(value, with_values, expected):
    """A small tensor is written out; others are random, in the range of the given ones."""
    assert reproducer._input(value, with_values) == expected
