"""Compiled functions under the tools of Python: tracers, profilers, copies, weak references, event loops."""

import asyncio
import copy
import cProfile
import errno
import functools
import gc
import sys
import weakref

import pytest
import torch

import nbcompile
from nbcompile.runtime import store

X = torch.linspace(-1, 1, 5)


def eager(x):
    return (x.sin() + 1).relu()


@pytest.fixture
def f():
    """Compiled anew."""
    nbcompile.reset()
    return nbcompile.compile(eager, backend="eager")


@pytest.mark.parametrize("tool", [sys.settrace, sys.setprofile])
def test_tracers_and_profilers(f, tool):
    """A function that is called at every event sees the program run; the results are right."""
    before = sys.gettrace() if tool is sys.settrace else sys.getprofile()
    events = []

    def seen(frame, event, argument):
        events.append(event)
        return seen if frame.f_code.co_filename == __file__ else None  # each line of the compiler would take a minute

    tool(seen)
    try:
        results = [f(X) for _ in range(3)]
    finally:
        tool(before)
    assert events
    assert all(torch.equal(each, eager(X)) for each in results)


def _note(seen, name, code, *_):
    if (code.co_filename, code.co_name) == (__file__, "eager"):
        seen.append(name)


EVENTS = ("PY_START", "PY_RETURN", "LINE", "INSTRUCTION", "CALL", "BRANCH", "JUMP", "RAISE")
TOOL = 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_tools_of_sys_monitoring(f, is_local, is_compiled):
    """A tool disturbs no result, whether it comes before the first call or later.

    One that asks for the events of all code sees the compiled function start and return at each call. What it asks for of the
    function's own code object (coverage) does not happen: the program that runs in its place is another code object.
    """
    monitoring = sys.monitoring
    seen = []
    if is_compiled:
        f(X)
    monitoring.use_tool_id(TOOL, "a test")
    try:
        asked = 0
        for name in EVENTS:
            event = getattr(monitoring.events, name)
            asked |= event if not is_local or name != "RAISE" else 0  # which is for all code alone
            monitoring.register_callback(TOOL, event, functools.partial(_note, seen, name))
        if is_local:
            monitoring.set_local_events(TOOL, eager.__code__, asked)
        else:
            monitoring.set_events(TOOL, asked)
        results = [f(X) for _ in range(3)]
    finally:
        monitoring.set_events(TOOL, 0)
        monitoring.set_local_events(TOOL, eager.__code__, 0)
        for name in EVENTS:
            monitoring.register_callback(TOOL, getattr(monitoring.events, name), None)
        monitoring.free_tool_id(TOOL)
    assert all(torch.equal(each, eager(X)) for each in results)
    calls = 0 if is_local else len(results)
    assert (seen.count("PY_START"), seen.count("PY_RETURN")) == (calls, calls)


def test_cprofile(f):
    """The same under ``cProfile``."""
    with cProfile.Profile() as profile:
        result = f(X)
    assert torch.equal(result, eager(X))
    assert profile.getstats()


def test_copies_and_weak_references():
    """A copy of a compiled module computes with parameters of its own; a module that is dropped is freed."""
    module = nbcompile.compile(torch.nn.Linear(5, 2), backend="eager")
    expected = module(X)
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.weight.zero_()
    assert torch.equal(module(X), expected)
    assert torch.equal(other(X), other.bias)
    reference = weakref.ref(module)
    del module
    gc.collect()
    assert reference() is None


def test_event_loops(f):
    """Tasks that take turns."""

    async def call(size):
        x = torch.ones(size)
        await asyncio.sleep(0)
        return torch.equal(f(x), eager(x))

    async def all_of_them():
        return await asyncio.gather(*map(call, range(2, 8)))

    assert all(asyncio.run(all_of_them()))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(number, monkeypatch, tmp_path):
    """Where nothing can be written into the store, calls are right all the same."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))

    def full(*arguments):
        raise OSError(number, "the disk is full")

    monkeypatch.setattr(store, "_drafted", full)
    nbcompile.reset()
    g = nbcompile.compile(lambda x: (x.cos() * 3.25).exp())
    with pytest.warns(Warning):
        result = g(X)
    torch.testing.assert_close(result, (X.cos() * 3.25).exp())
