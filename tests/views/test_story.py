"""The summary in sentences: what was compiled, as what it runs, where it stopped, why it was compiled again."""

from __future__ import annotations

import dataclasses

import torch

import nbcompile
from nbcompile import api
from nbcompile.record import model
from nbcompile.views import story, text
from tests.views import sample_records as sample


def told(record):
    return [each.text for each in story.of(record)]


def test_a_break_is_told_where_the_user_sees_it():
    """The line of the outermost function; a break further in is told as its call's."""
    assert any("`f` stops at line 3, which runs as plain Python" in each for each in told(sample.save_break()))
    assert any("in whose call `inner1` breaks" in each for each in told(sample.nested()))


def tripled(x, k):
    return x * 3 + k


def test_a_recompilation_is_told_with_both_values():
    """Which entry refused, what it expected and what came."""
    nbcompile.reset()
    function, pen = nbcompile.compile(tripled, backend="eager"), api.new_recorder("tripled")
    with pen.listening():
        function(torch.ones(3), 1)
        function(torch.ones(4), 1)
    wanted = "`tripled` was compiled again, for `0/0` refused a call (expected `3`, came `4`): size of tensor 'x', dimension `0`."
    assert wanted in told(pen.record())


def test_a_backward_pass_is_part_of_the_work():
    """More kernels than operators are no riddle: autograd's are among them."""
    frame = sample.simple().frames[0]
    graphs = tuple(dataclasses.replace(each, stage="backward") for each in frame.compiled_graph.graphs)
    learnt = dataclasses.replace(frame, compiled_graph=dataclasses.replace(frame.compiled_graph, graphs=graphs))
    record = dataclasses.replace(sample.simple(), frames=(learnt,))
    assert "5 operators and what autograd needs of them run as 1 generated kernel." in told(record)
    assert "5 operators run as 1 generated kernel." in told(sample.simple())


def test_what_was_loaded_is_no_compile():
    """A page that an earlier process wrote says so, also where an older entry refused the call."""
    record = sample.recompiled()
    one, *more = record.frames
    loaded = [dataclasses.replace(each, cause=model.LOADED) for each in (one, *more)]
    assert any("nothing was compiled now" in each for each in told(dataclasses.replace(record, frames=loaded)))
    assert any("was loaded for other values" in each for each in told(dataclasses.replace(record, frames=loaded)))
    assert not any("compiled again" in each for each in told(dataclasses.replace(record, frames=loaded)))
    partly = told(dataclasses.replace(record, frames=[one, *loaded[1:]]))
    assert f"Loaded from the store, where an earlier process left it: `{more[0].function}`." in partly
    assert not any("store" in each for each in told(record))


def test_what_was_not_compiled_is_told_with_its_reason():
    """It ran, as plain Python, and the reader need not unfold anything to know why."""
    assert any("ran eagerly as a whole: " in each for each in told(sample.skipped()))


def test_what_happens_often_is_told_a_few_times():
    """A record with many recompilations has a short summary."""
    record = sample.recompiled()
    many = dataclasses.replace(record, frames=record.frames[:1] + record.frames[1:] * 10)
    assert sum("compiled again" in each for each in told(many)) == story.FEW


def test_the_text_says_the_same():
    """Without the backticks."""
    shown = " ".join(text.render(sample.save_break(), "summary").split())
    assert all(each.replace("`", "") in shown for each in told(sample.save_break()))
