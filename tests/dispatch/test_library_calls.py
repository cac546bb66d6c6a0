"""Modules and functions of a library are compiled in a frame with the program's names."""

from __future__ import annotations

import gc
import inspect
import weakref

import torch

import nbcompile
from nbcompile.dispatch import library_calls, skipping
from tests.support.graphs import Graphs


def test_its_text_can_be_read():
    """``inspect`` finds the source, and the call gives the module's result."""
    net = torch.nn.Linear(2, 2)
    caller = library_calls.caller_of(net, "net", "_call_impl")
    assert inspect.getsource(caller) == "def Linear(*args, **kwargs):\n    return net._call_impl(*args, **kwargs)\n"
    x = torch.ones(1, 2)
    assert torch.equal(caller(x), net(x))


def test_names_that_cannot_be_variables():
    """A name that is not an identifier, or that hides the arguments, is replaced."""
    for name in ("class", "nets[0]", "args", ""):
        text = inspect.getsource(library_calls.caller_of(lambda x: x, name))
        assert text == "def inner(*args, **kwargs):\n    return fn(*args, **kwargs)\n"


def test_equal_code_that_is_gone():
    """Code with equal text is still compiled after an equal code object is freed."""
    first, second = (library_calls.caller_of(torch.nn.Linear(2, 2), "net") for _ in range(2))
    assert first.__code__ == second.__code__
    del first
    gc.collect()
    assert skipping.code_skip_reason(second.__code__) is None


def test_what_is_shown():
    """The frame has the module's name and source, and guards have torch's name for the module."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    record = nbcompile.explain(model)(torch.ones(1, 2)).record
    (frame,) = record.frames
    assert frame.function == "Sequential"
    assert any(guard.source.startswith("L['fn']") for guard in frame.guards)
    assert frame.source == "def Sequential(*args, **kwargs):\n    return fn(*args, **kwargs)\n"


def test_a_later_caller_does_not_change_what_is_shown():
    """The source of a module's caller is its own, also after the caller of something else was generated."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    caller = library_calls.caller_of(model)
    library_calls.caller_of(torch.nn.functional.relu)
    assert inspect.getsource(caller).startswith("def Sequential(")


def test_modules_of_one_name():
    """Two modules with the same name share no cache entry, so neither causes a recompile of the other."""
    for width in (2, 3):
        net = torch.nn.Sequential(torch.nn.Linear(width, 2))
        explained = nbcompile.explain(net)(torch.ones(1, width))
        assert [frame.id.partition("/")[2] for frame in explained.record.frames] == ["0"]
        assert not explained.record.frames[0].failed_guards


def test_modules_of_one_structure():
    """A new module with the same classes and sizes reuses the entry of the first, as in torch."""
    graphs = Graphs()

    for _ in range(3):
        net, x = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.randn(1, 3)
        assert torch.equal(nbcompile.compile(net, backend=graphs)(x), net(x))
    assert len(graphs) == 1


def test_modules_of_another_structure():
    """All such modules are compiled, also if their number exceeds the recompile limit."""
    graphs = Graphs()

    for width in range(1, nbcompile.config.recompile_limit + 3):
        nbcompile.compile(torch.nn.Linear(width, 2), backend=graphs)(torch.randn(1, width))
    assert len(graphs) == nbcompile.config.recompile_limit + 2


def test_classes_of_old_structures_are_freed():
    """A class that a cell defines again and again is referenced only by the latest structures."""

    def called():
        class Scaled(torch.nn.Module):
            def forward(self, x):
                return 2 * x

        library_calls.caller_of(torch.nn.Sequential(Scaled()))
        return weakref.ref(Scaled)

    reference = called()
    for width in range(library_calls.SHARED):
        library_calls.caller_of(torch.nn.Sequential(torch.nn.Linear(1, width + 1)))
    gc.collect()
    assert reference() is None
