"""%compile_live: compiled frames, in an output that is updated."""

from __future__ import annotations

import pytest

import nbcompile
from nbcompile.record import recorder

CELL = """
import nbcompile, torch
@nbcompile.compile(isolate_recompiles=True)
def f(x):
    return x + 1
for size in (3, 4):
    f(torch.ones(size))
"""


@pytest.mark.compiles
def test_frames_appear_as_they_are_compiled(run, shell):
    """The output counts frames of later cells, and has the reason of a recompile, until it is stopped."""
    before = len(recorder.subscribers)
    ran = run("%compile_live")
    assert "frames: 0" in ran.outputs[0].data["text/plain"]
    live = recorder.subscribers[-1]
    assert run(CELL).error is None
    assert live.numbers() == {
        "frames": 2, "recompilations": 1, "cache entries": 2, "graph breaks": 0, "operators": 2, "kernels": 2,
        "ATen calls": 0,
    }  # fmt: skip
    assert "size mismatch" in live.text()
    newest, first = live.text().splitlines()[1:]
    assert f"compiled, 2 of {nbcompile.config.recompile_limit} entries, " in newest
    assert f"compiled, 1 of {nbcompile.config.recompile_limit} entries, " in first
    assert "<b>2</b> frames" in live.html()
    assert " id=" not in live.html().partition("</style>")[2]
    run("%compile_live stop")
    assert len(recorder.subscribers) == before
    run(CELL)
    assert live.numbers()["frames"] == 2


def test_a_second_one_takes_over_and_unloading_ends_it(run, shell):
    """There is one live output; unloading the extension ends it."""
    before = len(recorder.subscribers)
    run("%compile_live")
    run("%compile_live")
    assert len(recorder.subscribers) == before + 1
    run("%unload_ext nbcompile")
    assert len(recorder.subscribers) == before


def test_a_wrong_argument_is_rejected(run):
    """Any argument but `stop` is an error."""
    ran = run("%compile_live halt")
    assert "takes no argument but stop" in ran.err + str(ran.error)
