"""The hooks of the disk cache: when a frame is looked up, the record of a loaded one, and frames without an entry."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nbcompile
from nbcompile import config
from nbcompile.fast.disk_cache import entry, frames
from nbcompile.record import model

PROGRAM = """
import torch
def f(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()
def nothing(x):
    return 3
def fixed(x, n=3):
    return x * n
"""
X = torch.linspace(-1, 1, 4)


@pytest.fixture
def asked(monkeypatch):
    """The names of the functions for which entries were looked up."""
    names, load = [], entry.load

    def loaded(frame, *arguments, **options):
        names.append(frame.code.co_name)
        return load(frame, *arguments, **options)

    monkeypatch.setattr(entry, "load", loaded)
    return names


def test_a_loaded_frame_has_an_id_of_this_process(process):
    """The ids in the record belong to this process; the resume function is loaded, too."""
    for attempt in range(2):
        run = process(PROGRAM)
        run.call("f", X)
        first, rest = run.frames
        assert (first.id, rest.id) == ("0/0", "1/0")
        assert [(frame.cause in model.FROM_STORE) for frame in run.frames] == [bool(attempt)] * 2
    assert [graph_break.id for graph_break in first.breaks] == ["0/0.b0"] and first.graph.nodes


@pytest.mark.parametrize("own", [True, False])
def test_the_cause_says_which_process_compiled_it(process, monkeypatch, own):
    """A cell that runs twice finds the entry that this process wrote."""
    process(PROGRAM).call("fixed", X)
    load = entry.load
    monkeypatch.setattr(entry, "load", lambda *given, **how: dataclasses.replace(load(*given, **how), is_own=own))
    run = process(PROGRAM)
    run.call("fixed", X)
    assert [frame.cause for frame in run.frames] == [model.LOADED_FROM_CACHE if own else model.LOADED]


def test_without_the_setting_nothing_is_looked_for(process, asked):
    """Nothing is stored either, so a later process compiles."""
    run = process(PROGRAM)
    with config.patch(warm_start=False):
        run.call("fixed", X)
    assert asked == []
    later = process(PROGRAM)
    later.call("fixed", X)
    assert asked == ["fixed"] and later.loaded == [False]


class Mode(TorchFunctionMode):
    """A user's mode, which changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_under_a_mode_or_a_transform_nothing_is_looked_for(process, asked):
    """Stored code was compiled without a mode or a transform."""
    process(PROGRAM).call("fixed", X)
    run = process(PROGRAM)
    asked.clear()
    with Mode():
        run.call("fixed", X)
    torch.func.grad(lambda x: nbcompile.compile(run.module.fixed)(x).sum())(X)
    assert asked == []


@pytest.mark.filterwarnings("ignore::nbcompile.errors.RecompileLimitWarning")
def test_at_the_limit_of_recompiles_nothing_is_looked_for(process, asked):
    """At the recompile limit the compiler rejects the call, and a stored entry must not hide that."""
    run = process(PROGRAM)
    with config.patch(recompile_limit=1):
        run.call("fixed", X, dynamic=False)
        asked.clear()
        run.call("fixed", torch.ones(7), dynamic=False)
    assert asked == []


def test_where_a_recompile_is_an_error_nothing_is_looked_for_a_second_time(process, asked):
    """The error is raised, although an entry is stored."""
    first = process(PROGRAM)
    for size in (4, 7):
        first.call("fixed", torch.ones(size), dynamic=False)
    run = process(PROGRAM)
    with config.patch(error_on_recompile=True):
        run.call("fixed", X, dynamic=False)
        asked.clear()
        with pytest.raises(Exception, match="[Rr]ecompil"):
            run.call("fixed", torch.ones(7), dynamic=False)
    assert asked == []


def test_that_there_is_nothing_to_compile_is_loaded_too(process, asked, monkeypatch):
    """A later process skips the frame and all calls of its code, unless a recorder is active."""
    kept = []
    monkeypatch.setattr(entry, "store_skipped", lambda *given: kept.append(given[0].code.co_name))
    run = process(PROGRAM)
    run.call("nothing", X)
    assert kept == []
    later = process(PROGRAM)
    nbcompile.compile(later.module.nothing)(X)
    assert kept == ["nothing"]


def test_a_filter_of_guards_leaves_no_skipped_frame(monkeypatch):
    """A guard filter is a function of this process."""
    kept = []
    monkeypatch.setattr(entry, "store_skipped", lambda *given: kept.append(given))

    class Filtered:
        guard_filter = len

    class Plain:
        guard_filter = None

    with config.patch(warm_start=True):
        for options in (Filtered, Plain):
            frames.store_skipped("frame", options, "no operators", (), None)
    assert [given[1] for given in kept] == [Plain]
