"""Causes of recompilations: one value with several recompiles is one cause, with one sentence of advice."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.views import recompile_causes
from nbcompile.views.facts import SEVERAL


def branching(x, how):
    return x + 1 if how == "up" else x - len(how)


def rejected(values):
    """The record of calls that differ in one string, and the recompiled frames."""
    nbcompile.reset()
    compiled, frame_recorder = nbcompile.compile(branching, backend="eager"), api.new_recorder("branching")
    with frame_recorder.listening():
        for value in values:
            compiled(torch.ones(3), value)
    record = frame_recorder.record()
    return record, [frame for frame in record.frames if frame.failed_guards]


@pytest.mark.compiles
@pytest.mark.parametrize("count", [2, SEVERAL + 1])
def test_one_value_is_one_cause(count):
    """All recompilations for one argument are one cause; several are summarised."""
    record, again = rejected(["up", "a", "bb", "ccc", "dddd", "eeeee"][:count])
    (cause,) = recompile_causes.causes(record, again)
    assert list(cause.frames) == again
    assert len(again) == count - 1
    assert recompile_causes.is_storm(record) == (count > SEVERAL)


@pytest.mark.compiles
def test_a_remedy_is_given_once():
    """Several recompilations with the same advice have one sentence."""
    record, again = rejected(["up", "a", "bb", "ccc"])
    (cause,) = recompile_causes.causes(record, again)
    remedies = recompile_causes.remedies_of(cause)
    assert len(remedies) == len(set(remedies))
    assert all(text.startswith(("why: ", "advice: ")) for text in remedies)
