"""torch's counters are filled, for programs that read them."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.utils

import nbcompile
from tests.support.processes import python


@pytest.fixture
def counters():
    """torch's counters, empty before and after."""
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
    torch._dynamo.utils.counters.clear()


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def counted(compiler):
    """The counters after one program, without the texts of breaks."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = compiler(broken, backend="eager")
    for size in (3, 3, 4):
        compiled(torch.ones(size))
    told = {name: dict(counters[name]) for name in ("frames", "stats")}
    titles = {text.partition("\n")[0]: count for text, count in counters["graph_break"].items()}
    return told, titles, sum(counters["resumes"].values())


def test_a_program_is_counted_as_torch_counts_it(counters):
    """Frames, graphs, calls, breaks by title and resume functions are counted as in torch, with a recompile."""
    torch._dynamo.reset()
    expected = counted(torch.compile)
    torch._dynamo.reset()
    assert counted(nbcompile.compile) == expected
    assert expected[0]["stats"]["unique_graphs"] == 4


def test_a_frame_that_cannot_be_compiled_is_not_ok(counters):
    """A failed frame counts in the total, and its break with its reason."""

    def skipped(x):
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    nbcompile.compile(skipped, backend="eager")(torch.ones(2))
    assert counters["frames"] == {"total": 1} and not counters["graph_break"]
    assert [text.partition("\n")[0] for text in counters["unimplemented"]] == [
        "Call to `torch._dynamo.graph_break()`",
        "graph break in loop",
    ]


def test_seconds_are_counted_by_stage(counters):
    """``compile_times`` lists the stages of each compile."""
    times = torch._dynamo.utils.compilation_time_metrics
    before = {name: len(found) for name, found in times.items()}
    nbcompile.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    for name in ("_compile.compile_inner", "OutputGraph.call_user_compiler", "build_guards"):
        assert len(times[name]) == before.get(name, 0) + 1 and times[name][-1] > 0
    assert "_compile.compile_inner" in torch._dynamo.utils.compile_times()


@pytest.mark.fast_path
def test_counting_imports_nothing():
    """A compile does not import torch's module for a program that did not."""
    text = (
        "import sys, torch, nbcompile\n"
        "nbcompile.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
        "assert 'torch._dynamo.utils' not in sys.modules or 'torch._dynamo' not in sys.modules"
    )
    python(text)
