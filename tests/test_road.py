"""The packages of one compile in the order of the call, and the calls back up."""

from __future__ import annotations

import gc
import sys
import tomllib
from pathlib import Path
from types import CodeType

import pytest
import torch

import nbcompile
from nbcompile import config

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "nbcompile") + "/"
ROAD = [
    "eval_frame", "dispatch", "driver", "tracing", "bytecode", "backends", "aot", "lowering", "scheduling", "codegen",
    "runtime", "guarding", "rewriting",
]  # fmt: skip
"""The rooms in which something of the compile happens. Others hold data (``ir/``, ``capture/``), or are below them."""
CLIMBING = {
    ("eval_frame/wrapper.py", "fast/call_path.py"): "the installer of fast calls, given to the wrapper as a hook",
    ("dispatch/hook.py", "eval_frame/stances.py"): "the stance of the process, given to the hook",
    ("record/recorder.py", "observe/artifact_logs.py"): "a subscriber is asked whether it wants the frame",
    ("record/recorder.py", "observe/debug_folder.py"): "a subscriber",
    ("record/recorder.py", "observe/structured_trace.py"): "a subscriber",
    ("record/recorder.py", "observe/metrics.py"): "a subscriber",
    ("record/recorder.py", "ir/profiler_ranges.py"): "the opener of a profiler's range",
    ("hooks.py", "backends/registry.py"): "the backend, given to the hook that may compile in the background",
    ("hooks.py", "guarding/check.py"): "the builder of the guard tree, given to a hook",
    ("aot/aot_autograd.py", "backends/through_aot.py"): "the compilers that AOTAutograd calls",
    ("recording/graph_record.py", "backends/builtin.py"): "the rewrite whose result is recorded",
    ("ir/traversal.py", "scheduling/build.py"): "a function over expressions",
    ("ir/traversal.py", "scheduling/int32_narrowing.py"): "a function over expressions",
    ("dispatch/cache.py", "guarding/check.py"): "the check of the entry",
}
"""Calls of a room above the caller's, or beside it, with the reason: each calls a function that it was given."""


def storeys() -> dict[str, int]:
    """The layer of each package, from the contracts of import-linter; the highest is 0."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["nbcompile"]]
    names = [[name.strip(" ()") for name in layer.replace("|", ":").split(":")] for layer in layers]
    return {name: storey for storey, layer in enumerate(names) for name in layer}


def module(code: CodeType) -> str:
    """The module of a code object in the package, or "" outside of it."""
    return code.co_filename.removeprefix(PACKAGE) if code.co_filename.startswith(PACKAGE) else ""


def room(name: str) -> str:
    """The first folder of a module, or the loose module itself."""
    return name.partition("/")[0]


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, str]]:
    """Each call in a compile on the reference path: the nearest calling module of ours, and the called one."""

    def warm(x, y):
        return (torch.cos(x) + y).relu()

    def program(x, y):
        z = torch.sin(x) + y
        return z.relu()

    found = []

    def profile(frame, event, _):
        called = module(frame.f_code)
        if event != "call" or not called:
            return
        above = frame.f_back
        while above is not None and not module(above.f_code):
            above = above.f_back
        found.append((module(above.f_code) if above else "", called))

    x, y = torch.randn(8), torch.randn(8)
    with config.patch(reference=True):
        nbcompile.compile(warm)(x, y)  # modules imported at the first compile
        compiled = nbcompile.compile(program)
        before = sys.getprofile()
        gc.collect()
        gc.disable()  # objects of earlier tests that are freed now call back from wherever the collector runs
        sys.setprofile(profile)
        try:
            compiled(x, y)
        finally:
            sys.setprofile(before)
            gc.enable()
    return found


@pytest.mark.compiles
def test_the_rooms_come_in_the_order_of_the_book(calls):
    """At most fourteen packages are entered, each first after those before it in the book."""
    met = list(dict.fromkeys(room(called) for _, called in calls))
    assert [name for name in met if name in ROAD and name != "runtime"] == [name for name in ROAD if name != "runtime"]
    assert "runtime" in met  # entered early, for the name of the compiler
    assert len(ROAD) <= 14


@pytest.mark.compiles
def test_nothing_climbs_back_but_by_a_function_that_was_given(calls):
    """A call goes to a lower layer, or is a listed callback."""
    storey_of = storeys()

    def climbs(caller: str, called: str) -> bool:
        above, below = (storey_of[room(each).removesuffix(".py")] for each in (caller, called))
        return room(caller) != room(called) and below <= above

    found = {(caller, called) for caller, called in calls if caller and climbs(caller, called)}
    assert found - CLIMBING.keys() == set()
    assert CLIMBING.keys() - found == set(), "an exception that is none any more"
