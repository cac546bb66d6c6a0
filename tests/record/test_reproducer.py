"""The reproducer of a graph: a program that runs in a separate process, and compares with eager mode."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch
from torch.nn import functional as F

import nbcompile
from nbcompile.record import reproducer
from nbcompile.views.explanation import Explanation
from tests.support.processes import command, python
from tests.views import sample_records as sample


def attention(x, weight, mask, index):
    hidden = F.layer_norm(x @ weight, (8,))
    scores = (hidden @ hidden.transpose(-1, -2)).masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ hidden + x[index], x.shape[0] * 2.5


@pytest.mark.parametrize(
    ("backend", "dynamic"),
    [
        ("eager", None),
        pytest.param("eager", True, marks=pytest.mark.slow),
        pytest.param("inductor", True, marks=pytest.mark.slow),
    ],
)
def test_the_program_runs_by_itself_and_agrees(tmp_path, backend, dynamic):
    """The program works for floats, bools, indices and strides, and with symbolic sizes."""
    nbcompile.reset()
    arguments = (
        torch.randn(4, 8), torch.randn(16, 8)[::2], torch.eye(4, dtype=torch.bool).logical_not().triu(), torch.tensor([0, 1, 2, 3]),
    )  # fmt: skip
    record = nbcompile.explain(attention, dynamic=dynamic, backend=backend)(*arguments).record
    path = Explanation(record).reproducer(tmp_path / "again.py")
    text = path.read_text()
    assert "attention" in text
    assert python(path) == f"{record.frames[0].id}: compiled equals eager\n"
    # A wrong graph fails the comparison.
    path.write_text(text.replace("expected = graph(*", "expected = (lambda *a: [graph(*a)[0] + 1, *graph(*a)[1:]])(*"))
    assert "AssertionError" in command(sys.executable, path, status=1).stderr


def test_what_no_text_can_say_is_rejected():
    """A frame without a graph, and a graph that contains a tensor, are rejected."""
    frame = sample.simple().frames[0]
    with pytest.raises(ValueError, match="0/0 has no graph"):
        reproducer.script(dataclasses.replace(frame, graph=None))
    held = dataclasses.replace(frame.graph.nodes[1], op="get_attr", target="weight")
    graph = dataclasses.replace(frame.graph, nodes=(held,))
    with pytest.raises(ValueError, match="an object of its own, weight"):
        reproducer.script(dataclasses.replace(frame, graph=graph))
    with pytest.raises(ValueError, match="no frame '7/7'"):
        Explanation(sample.simple()).reproducer("never.py", "7/7")
