"""The stand-in device: its tensors, eager operators on the same memory, and a process after its removal."""

from __future__ import annotations

import os

import pytest
import torch

from nbcompile.gpu.standin import device
from nbcompile.runtime import gpu_launcher


def test_a_tensor_on_the_device_shares_its_memory_with_one_on_the_cpu(here):
    """The tensor on the CPU has the same memory, shape, strides and offset; an empty tensor has no memory."""
    x = torch.arange(12.0, device="cuda").reshape(3, 4).t()[1:]
    borrowed = device.on_cpu(x)
    assert borrowed.device.type == "cpu" and (borrowed.shape, borrowed.stride()) == (x.shape, x.stride())
    borrowed.zero_()
    assert not x.cpu().any()
    assert device.on_cpu(torch.empty(0, 3, device="cuda")).shape == (0, 3)


OPERATORS = {
    "new": lambda x: x.sin() + 1,
    "in place": lambda x: x.add_(1),
    "a view": lambda x: x.t()[1:].unfold(0, 2, 1),
    "out": lambda x: torch.add(x, 1, out=torch.empty(0, device=x.device)),
    "several": lambda x: torch.topk(x, 2),
    "another type": lambda x: (x > 0).sum(dtype=torch.int16),
    "numbers as tensors": lambda x: torch.bitwise_or(x.long(), 3),
    "a number": lambda x: x.sum().item(),
    "a factory": lambda x: torch.full_like(x, 2.5) + torch.ones(4, device=x.device),
    "resized": lambda x: x.clone().resize_(2, 2),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_eager_mode(here, name):
    """Values, dtypes and strides equal eager mode's, and results are on the device."""
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    expected, found = OPERATORS[name](x.clone()), OPERATORS[name](x.clone().cuda())
    if not isinstance(expected, (tuple, torch.Tensor)):
        assert found == expected
        return
    pairs = zip(*((each,) if isinstance(each, torch.Tensor) else each for each in (found, expected)), strict=True)
    for mine, theirs in pairs:
        assert mine.device.type == "cuda" and mine.stride() == theirs.stride() and mine.dtype == theirs.dtype
        torch.testing.assert_close(mine.cpu(), theirs)


def test_an_operator_in_place_returns_its_argument(here):
    """The result of an in-place operator is its argument itself, also if that is given twice."""
    x = torch.ones(3, device="cuda")
    assert x.add_(1) is x
    assert x.mul_(x) is x and x.tolist() == [4.0] * 3


def test_a_number_takes_the_type_of_a_tensor_of_its_kind():
    """A number gets the dtype of a tensor of its kind; a number of a larger kind keeps its dtype."""
    x = torch.ones(2, dtype=torch.int16)
    _, same = device._tensors_for_numbers(torch.ops.aten.bitwise_or.Tensor, (x, 3))
    assert same.dtype == torch.int16 and same.item() == 3
    _, larger = device._tensors_for_numbers(torch.ops.aten.add.Tensor, (x, 1.5))
    assert larger.dtype == torch.float64


def test_outside_of_the_block_there_is_no_gpu_again(here):
    """After the block, the functions of torch.cuda and the environment variable are restored."""
    inside = torch.cuda._lazy_init, os.environ[gpu_launcher.VARIABLE]
    with device.standin(devices=2) as nested:
        assert torch.cuda.current_device() == 0 and nested.module is here.module
    assert (torch.cuda._lazy_init, os.environ[gpu_launcher.VARIABLE]) == inside


def test_a_stream_is_current_inside_its_block(here):
    """A stream is current in its block; afterwards the previous stream is."""
    before = here.module.set_stream(0, 0)
    here.module.set_stream(0, before)
    with here.stream(5):
        assert here.module.set_stream(0, 5) == 5
    assert here.module.set_stream(0, before) == before
