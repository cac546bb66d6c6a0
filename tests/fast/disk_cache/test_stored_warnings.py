"""Operator warnings in stored entries: each process shows them at its own lines, under its own filters."""

from __future__ import annotations

import warnings

import pytest
import torch

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.capture.operator_warnings import OperatorWarning
from nbcompile.fast.disk_cache import stored_warnings

SIZES = """
import torch
import torch.nn.functional as F
def f(x, y):
    z = x + 1
    return F.l1_loss(z, y)
"""
WINDOW = """
import torch
def f(s):
    return torch.istft(s, 16, 4)
"""
AFTER_A_BREAK = """
import torch
import torch.nn.functional as F
def f(x, y):
    z = x + 1
    torch._dynamo.graph_break()
    return F.l1_loss(z, y)
"""
QUIET = """
import torch
def f(x):
    return x + 1
"""


@pytest.fixture
def warns_always():
    """A fixture in which each call of a C++ operator warns, as the first one of a new process does."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def caught(one, *arguments):
    """The warnings of one compiled call: category, text, file and line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        one.call("f", *arguments)
    return [(each.category, str(each.message), each.filename, each.lineno) for each in found]


@pytest.mark.usefixtures("warns_always")
@pytest.mark.parametrize(
    ("program", "arguments", "text", "line"),
    [
        pytest.param(SIZES, (torch.ones(3), torch.ones(3, 3)), "Using a target size", 6, id="Python"),
        pytest.param(WINDOW, (torch.ones(9, 17) + 0j,), "A window was not provided", 4, id="C++"),
        pytest.param(AFTER_A_BREAK, (torch.ones(3), torch.ones(3, 3)), "Using a target size", 7, id="after a break"),
    ],
)
def test_a_loaded_graph_warns_as_the_compiled_one_did(process, program, arguments, text, line):
    """The category, text, file and line are equal, once, also if the function begins at another line."""
    first = process(program)
    compiled = caught(first, *arguments)
    assert [(row[1].startswith(text), row[2:]) for row in compiled] == [(True, ("<warm_program>", line))]
    second = process(program)
    assert caught(second, *arguments) == compiled
    assert all(second.loaded)
    moved = process("\n\n\n" + program)
    assert [row[2:] for row in caught(moved, *arguments)] == [("<warm_program>", line + 3)]


def test_a_graph_without_warnings_stays_silent(process):
    """An entry without warnings shows none."""
    assert caught(process(QUIET), torch.ones(3)) == []
    second = process(QUIET)
    assert caught(second, torch.ones(3)) == []
    assert second.loaded == [True]


def test_the_filters_of_the_process_that_loads_decide(process):
    """Ignored warnings are not shown; a warning that is an error causes a compilation, and is raised."""
    arguments = torch.ones(3), torch.ones(3, 3)
    caught(process(SIZES), *arguments)
    second = process(SIZES)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        second.call("f", *arguments)
    assert (second.loaded, found) == ([True], [])
    third = process(SIZES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Using a target size"):
            third.module.f(*arguments)
        with pytest.raises(UserWarning, match="Using a target size"):
            third.call("f", *arguments)


def row(message, category=UserWarning, file="cell.py", line=3):
    """A warning, as tracing records it."""
    return OperatorWarning(message if isinstance(message, Warning) else category(message), category, file, line)


def test_a_line_of_the_function_is_counted_from_its_first():
    """The stored line is relative to the function; the line in another file is absolute."""
    code = compile("def f(): pass\n", "one.py", "exec").co_consts[0]
    there = compile("\n\ndef f(): pass\n", "two.py", "exec").co_consts[0]
    rows = stored_warnings.write([row("own", file="one.py", line=1), row("other")], code)
    assert [(each.file, each.line) for each in stored_warnings.read(rows, there)] == [("two.py", 3), ("cell.py", 3)]


class Numbered(UserWarning):
    """A warning whose text differs from its argument."""

    def __str__(self):
        return f"number {self.args[0]}"


def test_a_warning_that_is_not_made_of_a_text_is_not_storable():
    """Such a warning could not be shown again with the same text; neither could one of a local class."""
    with pytest.raises(NotStorable, match="not created from its text"):
        stored_warnings.write([row(Numbered(3), Numbered)], row.__code__)
    local = type("local", (UserWarning,), {"__qualname__": "f.<locals>.local"})
    with pytest.raises(NotStorable):
        stored_warnings.write([row("own", local)], row.__code__)


def test_a_filter_that_raises_rejects_the_entry():
    """Ignored warnings are removed; one that would be raised rejects the entry."""
    found = [row("one"), row("two", DeprecationWarning)]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        assert stored_warnings.filtered(found) == found[:1]
        warnings.simplefilter("error", DeprecationWarning)
        with pytest.raises(Unreadable, match="DeprecationWarning"):
            stored_warnings.filtered(found)
