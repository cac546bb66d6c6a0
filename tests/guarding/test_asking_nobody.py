"""Reads of a tensor by the compiler do not call ``__torch_function__`` of its class or of a mode."""

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nbcompile
from nbcompile.record.recorder import Recorder

CALLED = []


@nbcompile.disable
def noted(function):
    CALLED.append(function.__name__)


class Listed(torch.Tensor):
    """A tensor class that records each call, in Python that is not traced."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        noted(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Listing(TorchFunctionMode):
    """A function mode that records each call."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        noted(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("recorded", [False, True], ids=["silent", "recorded"])
@pytest.mark.parametrize("mode", [contextlib.nullcontext, Listing], ids=["class", "mode"])
def test_only_what_the_program_calls(mode, recorded):
    """Only the operators of the program are recorded, also with recompiles for sizes, dtypes and ``requires_grad``."""
    nbcompile.reset()
    listening = Recorder("f").listening if recorded else contextlib.nullcontext
    compiled = nbcompile.compile(lambda x: (x + 1) * 2, backend="eager")
    with listening():
        for size, grad, dtype in ((3, 0, None), (4, 0, None), (5, 1, torch.float64)):
            x = torch.ones(size, dtype=dtype, requires_grad=bool(grad))
            x = x.as_subclass(Listed) if mode is contextlib.nullcontext else x
            with mode():
                CALLED.clear()
                compiled(x)
                assert CALLED == ["add", "mul"]
