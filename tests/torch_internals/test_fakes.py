"""Fake tensors, and what a tensor's class says about where its operators run."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from nbcompile import torch_internals
from nbcompile.torch_internals import fakes


class Named(torch.Tensor):
    pass


def named() -> torch.Tensor:
    return torch.ones(2).as_subclass(Named)


def wrapper() -> torch.Tensor:
    return TwoTensor(torch.ones(2), torch.ones(2))


def new_mode():
    return fakes.new_fake_mode(torch_internals.symbolic_shapes().ShapeEnv())


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (fakes.is_plain, (True, False, False)),
        (fakes.is_wrapper, (False, False, True)),
        (fakes.is_overriding, (False, True, False)),
        (lambda tensor: fakes.dispatches(type(tensor)), (False, False, True)),
        (fakes.overrides_when_run, (False, False, False)),
        (fakes.is_jagged, (False, False, False)),
    ],
    ids=["plain", "wrapper", "overriding", "dispatches", "answers when run", "jagged"],
)
def test_classes_of_tensors(question, answers):
    """Of a plain tensor, one of a class that inherits its override, and one that wraps two others."""
    assert tuple(question(make()) for make in (lambda: torch.ones(2), named, wrapper)) == answers


def test_a_tensor_of_a_user_is_taken_as_one_of_torch():
    """Its memory and whether it requires gradients stay; a plain tensor stays the object that it is."""
    x, mine = torch.ones(2), named().requires_grad_()
    assert fakes.plain(x) is x
    found = fakes.plain(mine)
    assert type(found) is torch.Tensor
    assert (found.data_ptr(), found.requires_grad) == (mine.data_ptr(), True)


def test_a_graph_runs_without_overrides_and_returns_its_inputs():
    """It gets plain tensors; an input that it returns is the object that was given."""
    seen = []

    def graph(x):
        seen.append(type(x))
        return x, x * 2

    mine = named()
    first, second = fakes.without_overrides(graph)(mine)
    assert seen == [torch.Tensor]
    assert first is mine
    assert type(second) is torch.Tensor


def test_a_static_fake_has_the_sizes_of_its_tensor():
    """No size is a symbol, and there is no data."""
    fake = fakes.static_fake(new_mode(), torch.ones(2, 3))
    assert (tuple(fake.shape), fake.dtype) == ((2, 3), torch.float32)
    assert not torch_internals.has_symbolic_form(fake)


@pytest.mark.parametrize(
    ("tensor", "is_symbol"),
    [(torch.tensor(7), True), (torch.tensor(1.5, dtype=torch.float64), True), (torch.tensor(1.5), False),
     (torch.tensor([7]), False), (torch.tensor(math.inf, dtype=torch.float64), False)],
    ids=["int64", "float64", "float32", "a dimension", "infinite"],
)  # fmt: skip
def test_the_number_in_a_tensor_is_a_symbol(tensor, is_symbol):
    """Of an int64 or a finite float64 without dimensions, as these mean the same in Python."""
    mode = new_mode()
    fake = fakes.static_fake(mode, tensor)
    found = fakes.number_in(mode.shape_env, fake, tensor, "L['x']")
    assert isinstance(found, (torch.SymInt, torch.SymFloat)) is is_symbol


def test_the_last_write_is_unseen():
    """The version counter is what it was before the write, and never negative."""
    x = torch.ones(2)
    before = x._version
    x.add_(1)
    assert fakes.undo_last_version_bump(x) is x
    assert x._version == before
    assert fakes.undo_last_version_bump(torch.ones(2))._version == 0


def test_real_and_fake_tensors_mix_only_inside():
    """Under a mode that forbids it, an operator on both is allowed inside of the block, and rejected after it."""
    mode, real = new_mode(), torch.ones(2)
    fake = fakes.static_fake(mode, torch.ones(2))
    with mode:
        with fakes.real_tensors_allowed():
            assert tuple((fake + real).shape) == (2,)
        with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors"):
            fake + real


def test_a_number_as_a_tensor_has_full_precision():
    """A float is a float64, an int an int64."""
    assert [fakes.number_as_tensor(number).dtype for number in (1.5, 2)] == [torch.float64, torch.int64]
