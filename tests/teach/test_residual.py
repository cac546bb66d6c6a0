"""A residual program by hand: it calls the captured graphs, and computes nothing else."""

from __future__ import annotations

import pytest
import torch

from nbcompile.teach import residual
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.exercise_table import Exercise, define
from nbcompile.teach.residual import OperatorGuard

EXERCISE = Exercise("a", "A", "residual", 1, "", """
def f(x):
    y = x + 1
    print("half way")
    return y * 2
""", "", (), (), answer="residual", calls="[(torch.ones(2),)]")  # fmt: skip

RIGHT = """
def residual(x, graphs):
    (y,) = graphs[0](x)
    print("half way")
    (z,) = graphs[1](y)
    return z
"""


def test_the_graphs_and_the_statements_between_them():
    """The graphs and the output must come in the function's order."""
    says, record = residual.check(EXERCISE, define(RIGHT, "residual"))
    assert says.startswith("the graphs and your program") and record.frames


@pytest.mark.parametrize(
    ("wrong", "instead", "says"),
    [
        ("graphs[0](x)", "(x + 1,)", "executes `add` itself"),
        ("    return z", "    graphs[0](x)\n    return z", r"calls graphs\[0\] 2 times"),
        ("graphs[1](y)", "graphs[1](y, y)", r"graph 1 has 1 inputs \(.*\), and 2 were given"),
        ('    print("half way")\n', "", "call 1 prints the wrong text: expected 'half way"),
        ("graphs[1](y)", "(y,)", "call 1: expected"),
        ("graphs[1]", "graphs[7]", "IndexError"),
    ],
)  # fmt: skip
def test_what_is_rejected(wrong, instead, says):
    """Operators outside of the graphs, a repeated graph, wrong inputs, and another result are rejected."""
    assert wrong in RIGHT
    with pytest.raises(Rejection, match=says):
        residual.check(EXERCISE, define(RIGHT.replace(wrong, instead), "residual"))


def test_a_number_may_be_read():
    """Reading a number out of a tensor is no computation."""
    with OperatorGuard() as guard:
        torch.ones(1).item()
    assert "_local_scalar_dense" not in guard.outside and guard.outside == ["ones"]
