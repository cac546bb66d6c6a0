"""Observation of the real torch.compile: its graph breaks, recompiles and graphs, and its log settings afterwards."""

from __future__ import annotations

import logging

import pytest
import torch
import torch._dynamo

from nbcompile.peer import observe
from nbcompile.peer.observe import Watch

pytestmark = pytest.mark.peer
BREAK = """Graph break in user code at /here/program.py:12
Graph Break Reason: Call to `torch._dynamo.graph_break()`
  Explanation: User-inserted graph break. Message: None
User code traceback:
"""
RECOMPILE = """Recompiling function f in /here/program.py:3
    triggered by the following guard failure(s):
    - 0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5  # return x + 1
    - 0/0: L['k'] == 3                                             # k is a number
"""


def test_a_break_has_the_title_and_the_line_of_torchs_log():
    """The title is the line before the explanation, without its label; file and line are the user's."""
    watched = Watch()
    observe._hear_break(watched, BREAK)
    (found,) = watched.breaks
    assert found.title == "Call to `torch._dynamo.graph_break()`"
    assert (found.file, found.line) == ("/here/program.py", 12)


def test_two_breaks_in_one_message_are_two():
    """A message with a second break, raised during the handling of the first one, gives two breaks."""
    watched = Watch()
    observe._hear_break(watched, BREAK + observe._SECOND + "\nOther title\n  Explanation: more\n")
    assert [found.title for found in watched.breaks] == ["Call to `torch._dynamo.graph_break()`", "Other title"]


def test_a_message_of_another_form_ends_with_its_title():
    """If torch changes the form of its messages, the last line is the title, and the line number is 0."""
    watched = Watch()
    observe._hear_break(watched, "something\nwent another way")
    assert [(found.title, found.file, found.line) for found in watched.breaks] == [("went another way", "", 0)]


def test_a_recompile_has_the_reasons_of_each_entry():
    """Each failing entry has its reason, without the user's line, which follows two blanks and a hash."""
    watched = Watch()
    observe._hear_recompile(watched, RECOMPILE)
    (found,) = watched.recompiles
    assert found.function == "f"
    assert found.reasons == (
        "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5", "0/0: L['k'] == 3"
    )  # fmt: skip


def test_log_settings_are_as_they_were():
    """Handlers and propagation are restored, also after an exception; in the block the logs are not printed."""
    names = (*observe._BREAK_LOGS, observe._RECOMPILE_LOG)
    before = [(list(logging.getLogger(name).handlers), logging.getLogger(name).propagate) for name in names]
    with pytest.raises(KeyError), observe.watch():
        assert all(not logging.getLogger(name).propagate for name in names)
        raise KeyError
    assert [(list(logging.getLogger(name).handlers), logging.getLogger(name).propagate) for name in names] == before


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def test_a_call_is_recorded_as_ours_is():
    """The record has the frames in order with their graphs, the graph break with its line, and the result."""
    x = torch.linspace(-1, 1, 3)
    record, result = observe.observe(broken)(x)
    assert torch.equal(result, broken(x))
    first, second = record.frames
    assert (first.id, second.id) == ("0/0", "1/0") and first.status == second.status == "compiled"
    assert [node.target for node in first.graph.nodes if node.op.startswith("call")] == [".sin"]
    assert [node.target for node in second.graph.nodes if node.op.startswith("call")] == [".cos"]
    (found,) = first.breaks
    assert found.stack[0].line == broken.__code__.co_firstlineno + 2 and second.breaks == ()
    torch._dynamo.reset()


@pytest.mark.parametrize(("make", "expected"), [
    (lambda graph, x: graph.call_function(torch.sin, (x,)), "torch.sin"),
    (lambda graph, x: graph.call_method("relu", (x,)), ".relu"),
    (lambda graph, x: graph.call_function(torch.nn.functional.gelu, (x,)), "torch._C._nn.gelu"),
    (lambda graph, x: x, "x"),
])  # fmt: skip
def test_an_operator_is_one_word(make, expected):
    """The operator of a node is one word, as in nbcompile's record."""
    graph = torch.fx.Graph()
    assert observe.target_name(make(graph, graph.placeholder("x"))) == expected


def test_frames_are_in_the_order_of_their_numbers():
    """Frames are sorted by number: ``10/0`` comes after ``2/0``."""
    assert sorted(["10/0", "2/0", "2/1"], key=observe._in_order) == ["2/0", "2/1", "10/0"]
