"""Reduction of a graph to its wrong operators."""

from __future__ import annotations

import ast

import pytest
import torch

from nbcompile.tools.diagnose.minify import minify
from tests.tools.diagnose import faults
from tests.tools.diagnose.test_minify import aten, long


@pytest.mark.parametrize(
    ("wrong", "right", "name"),
    [(aten.exp.default, aten.cos.default, "exp"), (aten.relu.default, aten.neg.default, "relu"),
     (aten.sin.default, aten.cos.default, "sin")],
)  # fmt: skip
def test_one_operator_is_left(monkeypatch, wrong, right, name):
    """Of more than twenty operators in two graphs one remains, with small inputs; the program names it."""
    faults.swapped(wrong, right)(monkeypatch)
    found = minify(long)(torch.randn(16, 24))
    assert found.nodes[1] == 1
    assert found.nodes[0] > 15
    assert name in str(found)
    assert all(value.numel() <= 4 for value in found.inputs)
    assert found.trials < 200
    ast.parse(found.script)


def test_two_operators_that_are_wrong_together_stay(monkeypatch):
    """A fault of fusion needs both of its operators, so both remain."""
    faults.wrong_fusion(monkeypatch)
    found = minify(lambda x: torch.softmax(x.sin(), -1) + x.amax(-1, keepdim=True).cos())(torch.randn(4, 8))
    assert 1 <= found.nodes[1] <= 2
