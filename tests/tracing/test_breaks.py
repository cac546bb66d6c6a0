"""Hints of graph breaks, which users can follow."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile import api
from nbcompile.record import links
from nbcompile.tracing import breaks


def breaks_of(function, *arguments):
    nbcompile.reset()
    frame_recorder = api.new_recorder("f")
    with frame_recorder.listening():
        nbcompile.compile(function, backend="eager")(*arguments)
    return [each.cause for each in links.distinct_breaks(frame_recorder.record())]


def test_a_call_in_torchs_own_code_is_not_to_be_removed():
    """The hint for torch's own ``graph_break()`` names the user's line; the user's own call can be removed."""
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())

    def step(x):
        net(x).sum().backward()
        optimizer.step()

    def own(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    in_torch = next(each for each in breaks_of(step, torch.ones(3, 4)) if "graph_break" in each.title)
    (hint,) = in_torch.hints
    assert "`optimizer.step()`" in hint
    assert "Remove" not in hint
    (mine,) = breaks_of(own, torch.ones(3))
    assert mine.hints == ("Remove the `torch._dynamo.graph_break()` call.",)


def test_a_backward_pass_is_not_said_to_be_impossible():
    """The hint is to call ``backward`` outside the compiled function, because torch can trace it."""

    def learn(w):
        (w * 2).sum().backward()

    (report,) = breaks_of(learn, torch.ones(3, requires_grad=True))
    assert "fundamental" not in " ".join(report.hints)
    assert "outside of the compiled function" in report.hints[0]


def test_a_print_is_to_be_moved():
    """``print`` has its own hint instead of a polyfill; other builtins have the general one."""

    def shown(x):
        print(x.sin())
        return x + 1

    (report,) = breaks_of(shown, torch.ones(3))
    assert report.hints[0] == breaks.PRINT_HINT
    assert "config.reorderable_logging_functions" in report.hints[1]
    other = breaks.unsupported(breaks.BUILTIN_OPERATOR, name="input", types="[]")
    assert other.hints()[0].startswith("Avoid calling builtin `input`")
