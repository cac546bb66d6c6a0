"""Programs of tensor operators, and their batches."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tools.fuzz import batches, oracle, tensors


def test_a_batch_and_its_programs(monkeypatch):
    """A batch of tensor programs is one function; its halves can run, down to single programs."""
    monkeypatch.setattr(tensors, "BATCH", 3)
    batch = tensors.generate("7")
    halves = list(batches.halves(batch))
    assert [half.size for half in halves] == [1, 2]
    assert not list(batches.halves(halves[0]))
    for played in [batch, *halves]:
        assert oracle.play(played, lambda function: function).error is None


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        (["a.t_()"], True),
        (["v0 = a.t()"], False),
        (["a.add_(1)"], False),
        (["v0 = a.expand(2, 3, 2)"], False),
        (["v0 = a.expand(2, 3, 2)", "v0[0].copy_(v0[-1])"], True),
        (["v0 = a.expand(2, 3, 2)", "v1 = v0 + 1", "v1.add_(1)"], False),
        (["v0 = a.view(torch.int32)"], True),
        (["v0 = a.double()", "v1 = v0.view(torch.uint8)"], True),
        (["v0 = a.t()", "v0.fill_diagonal_(1)"], True),
    ],
)
def test_one_program_does_not_take_the_batch_from_the_code_generator(lines, alone):
    """Programs whose graphs run through ATen are marked, so that they are in separate batches."""
    returned = ["a"] + [line.partition(" = ")[0] for line in lines if " = " in line]
    scope = {"torch": torch}
    assert tensors.runs_by_operator(lines, {"a": torch.ones(3, 2)}, scope, returned) == alone
