"""Times: nested stages, a trace for other tools, and the memory plan of the program."""

from __future__ import annotations

import json
import re

import pytest
import torch

import nbcompile
from nbcompile.record.model import EACH_CALL
from nbcompile.views import html, text, timings
from nbcompile.views.explanation import Explanation


def chained(x, w):
    a = (x @ w).relu()
    b = (a @ w).relu()
    c = (b @ w).relu()
    return (c @ w).sum()


@pytest.fixture(scope="module")
def record():
    nbcompile.reset()
    return nbcompile.explain(chained)(torch.randn(8, 8), torch.randn(8, 8)).record


@pytest.mark.compiles
def test_parts_are_no_longer_than_their_whole(record):
    """The stages inside of another one begin and end in it, and their sum is not longer."""
    frame = record.frames[0]
    own = {each.stage: each for each in record.timings if each.frame == frame.id}
    for whole in own.values():
        parts = [each for each in own.values() if each.inside == whole.stage]
        assert sum(each.seconds for each in parts) <= whole.seconds
        assert all(whole.began <= each.began for each in parts)
        assert all(each.began + each.seconds <= whole.began + whole.seconds for each in parts)
    assert {each.stage for each in own.values() if each.inside == "backend"} >= {
        "lowering",
        "scheduling",
        "codegen",
        "build",
    }
    outermost = [each.seconds for each in own.values() if not each.inside]
    assert timings.whole(record, frame) == sum(outermost)
    assert [each.stage for each in own.values() if each.inside == EACH_CALL] == ["one evaluation of the guards"]


def test_the_table_is_indented_as_the_stages_are(record):
    """A nested stage is below its parent, indented; text and HTML have the same order."""
    lines = text.render(record, "timings").splitlines()
    indents = {line.strip().split("  ")[0]: len(line) - len(line.lstrip()) for line in lines}
    assert indents["lowering"] == indents["backend"] + 2
    page = html.render(record, "timings", assets=False)
    shown = [re.sub(r"\W+", " ", each).strip() for each in re.findall(r"<tr><th>(.*?)</th>", page)]
    assert shown[1:] == [each.stage for _, each in timings.of_frame(record, record.frames[0])]


def test_the_chrome_trace_is_the_timings(record, tmp_path):
    """The trace has complete events with the recorded lengths and nesting, in microseconds from the first one."""
    trace = json.loads(Explanation(record).trace(tmp_path / "trace.json").read_text())
    events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    stages = [each for each in record.timings if each.inside != EACH_CALL]
    assert sorted((each["name"], round(each["dur"], 3)) for each in events) == sorted(
        (each.stage, round(each.seconds * 1e6, 3)) for each in stages
    )
    assert min(each["ts"] for each in events) == 0
    ends = {}
    for each in events:  # in order of begin: each is in, or after, those before it
        for other in ends.values():
            assert each["ts"] >= other - 1 or each["ts"] + each["dur"] <= other + 1
        ends[each["name"]] = each["ts"] + each["dur"]
    names = [each["args"]["name"] for each in trace["traceEvents"] if each["ph"] == "M"]
    assert names == [f"{frame.id} {frame.function}" for frame in record.frames]


def test_the_memory_plan_is_what_the_wrapper_does(record):
    """A buffer reuses the memory of a dead one; sizes are those of the buffers."""
    compiled = record.frames[0].compiled_graph
    plan = {each.buffer: each for each in compiled.lifetimes}
    assert any(each.memory_of for each in plan.values())
    for each in plan.values():
        if each.memory_of in plan:
            assert plan[each.memory_of].last < each.first
        assert each.buffer in compiled.wrapper
    sizes = {buffer.name: 4 * 8 * 8 for buffer in compiled.buffers if buffer.shape == ("8", "8")}
    assert {name: int(each.size) for name, each in plan.items() if name in sizes} == {
        name: size for name, size in sizes.items() if name in plan
    }
    page = html.render(record, "kernels", assets=False)
    assert f"Memory plan: {len(plan)} buffers in {sum(not each.memory_of for each in plan.values())} piece" in page
    assert "■" in page
    assert "memory plan: " in text.render(record, "kernels")
