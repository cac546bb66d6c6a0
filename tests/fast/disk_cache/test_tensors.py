"""Constants of a graph are stored exactly, or not at all."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache import tensors

VALUES = {
    "a scalar": torch.tensor(1.5),
    "nothing": torch.empty(0, 3),
    "nan and signed zeros": torch.tensor([float("nan"), -0.0, 0.0, float("-inf")]),
    "numbers of half precision": torch.tensor([1.0, 2.5], dtype=torch.bfloat16),
    "truths": torch.tensor([[True, False]]),
    "complex numbers": torch.tensor([1 + 2j, -0.0 + 0j]),
    "conjugated ones": torch.tensor([1 + 2j]).conj(),
    "other strides": torch.arange(6).view(2, 3).t(),
    "large numbers": torch.tensor([2**62, -1]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_constant_is_made_again(name):
    """Bits, dtype and strides are equal."""
    value = VALUES[name]
    again = tensors.decode(tensors.encode(value))
    assert (again.dtype, again.shape, again.stride()) == (value.dtype, value.shape, value.stride())
    same = torch.view_as_real if value.is_complex() else lambda each: each
    assert same(again).tolist().__repr__() == same(value.resolve_conj()).tolist().__repr__()


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1 << 16),
        torch.zeros(1, requires_grad=True),
        torch.zeros(1).expand(4),
        torch.eye(2).to_sparse(),
        torch.nn.Linear(1, 1),
    ],
    ids=["large", "learning", "one element for all", "sparse", "a module"],
)
def test_what_is_no_small_constant_is_not_written_down(value):
    """A user's tensor is an input of the graph, not a part of it."""
    with pytest.raises(NotStorable):
        tensors.encode(value)


def test_a_text_of_another_length_is_no_constant():
    """A text with the wrong length, as in an edited file, raises an error."""
    *told, text = tensors.encode(torch.ones(2))
    with pytest.raises(Unreadable):
        tensors.decode([*told, text[2:]])


PROGRAM = """
import torch
SCALE = [1.0, -0.0, 3.0]
def f(x):
    return x / torch.tensor(SCALE), torch.tensor([2, 1]) + 1
"""


def test_a_graph_with_constants_is_loaded(process):
    """Forward and backward are loaded; another list gives another graph."""
    for attempt in range(2):
        run = process(PROGRAM)
        x, other = (torch.ones(3, requires_grad=True) for _ in range(2))
        found, wanted = run.call("f", x), run.module.f(other)
        torch.testing.assert_close(found, wanted)
        found[0].sum().backward()
        wanted[0].sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
        assert run.loaded == [bool(attempt)]
    changed = process(PROGRAM.replace("3.0", "4.0"))
    torch.testing.assert_close(changed.call("f", torch.ones(3)), changed.module.f(torch.ones(3)))
    assert changed.loaded == [False]
