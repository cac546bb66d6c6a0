"""The caller of a frame, and the frame that it resumes."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile import api
from nbcompile.recording import frame_links


def test_a_resume_function_knows_its_frame():
    """A resume function, and a function that the residual program calls, have a parent; others have none."""

    def helper(x):
        return x * 2

    @nbcompile.compile(backend="eager")
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return helper(x)

    with api.listening(api.new_recorder("f")) as frame_recorder:
        f(torch.ones(2))
    first, resumed, *_ = frame_recorder.record().frames
    assert first.called_from == "" and first.resumes == ""
    assert resumed.resumes == first.id and resumed.called_from == first.id
    assert frame_links.calling_frame() == ""  # no residual program is running
