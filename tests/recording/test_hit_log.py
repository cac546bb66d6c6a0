"""A recorder logs the entry that each call runs."""

from __future__ import annotations

import warnings

import torch

import nbcompile
from nbcompile import api
from nbcompile.record import recorder


def listened(run):
    nbcompile.reset()
    frame_recorder = api.new_recorder("f")
    with frame_recorder.listening(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    return [(each.entry, each.compiled, each.times) for each in frame_recorder.record().calls]


def test_compiles_hits_and_calls_that_run_as_python():
    """Consecutive hits are one entry with a count; a miss beyond the limit runs as Python."""

    def f(x, *, k=1):
        return x + k

    def run():
        compiled = nbcompile.compile(f, backend="eager", dynamic=False, recompile_limit=2)
        for size in (3, 3, 3, 4, 3, 5, 4):
            compiled(torch.ones(size), k=2)

    assert listened(run) == [
        ("0/0", True, 1), ("0/0", False, 2), ("0/1", True, 1), ("0/0", False, 1), ("", False, 1), ("0/1", False, 1),
    ]  # fmt: skip


def test_modules_and_closures_count_too():
    """A call of a module hits an entry of its forward; a closure's variables are part of the call."""
    net = nbcompile.compile(torch.nn.Sequential(torch.nn.ReLU()), backend="eager")
    offset = 2

    def g(x):
        return x + offset

    def run():
        net(torch.ones(2))
        net(torch.ones(2))
        compiled = nbcompile.compile(g, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(2))

    assert [each[1:] for each in listened(run)] == [(True, 1), (False, 1), (True, 1), (False, 1)]


def test_methods_count_too():
    """The object of a bound method is part of the call, though it is not in the method's signature."""

    class Scale:
        factor = 3

        def apply(self, x):
            return x * self.factor

    def run():
        compiled = nbcompile.compile(Scale().apply, backend="eager", dynamic=False)
        for size in (2, 2, 3, 2):
            compiled(torch.ones(size))

    assert listened(run) == [("0/0", True, 1), ("0/0", False, 1), ("0/1", True, 1), ("0/0", False, 1)]


def test_a_call_that_raises_is_noted_and_raises():
    """The function's exception propagates; without a recorder nothing is logged."""

    def f(x):
        raise KeyError(x)

    compiled = nbcompile.compile(f, backend="eager")

    def run():
        try:
            compiled(1)
        except KeyError:
            pass

    assert len(listened(run)) <= 1
    assert recorder.watching == []
