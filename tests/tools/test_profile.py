"""Profiles: ranges of kernels and lines in torch.profiler, and the profile from them."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch.profiler import ProfilerActivity

import nbcompile
from nbcompile.record.profile import COMPILE, FRAME, KernelTime, Machine
from nbcompile.tools.profile import profiling
from nbcompile.views.profile import ProfileView
from tests.support.processes import python


def f(x, y):
    a = (x + y).sin()
    b = a @ y
    return b.relu().sum(0)


HERE = f.__code__.co_firstlineno


@pytest.fixture
def matrices():
    return torch.ones(16, 16), torch.full((16, 16), 2.0)


def names(run):
    """The names of the ranges in a plain torch.profiler."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as found:
        run()
    return [event.name for event in found.events()]


def test_kernels_are_ranges(matrices):
    """Each kernel and each ATen operator is a range with its id, its operators and its lines."""
    compiled = nbcompile.compile(f)
    compiled(*matrices)
    ranges = [name for name in names(lambda: compiled(*matrices)) if ".inference." in name]
    assert [name.partition(".")[2] for name in ranges] == [
        f"inference.kernel0 add, sin (test_profile.py:{HERE + 1})",
        f"inference.extern0 mm (test_profile.py:{HERE + 2})",
        f"inference.kernel1 relu, sum (test_profile.py:{HERE + 3})",
    ]


def test_ids_are_those_of_the_record(matrices):
    """A range begins with the id of its kernel in the record, forward and backward."""
    x, y = matrices[0].requires_grad_(), matrices[1]
    explained = nbcompile.explain(f)(x, y)
    known = {kernel.id for frame in explained.record.frames for kernel in frame.compiled_graph.kernels}
    torch._dynamo.reset()
    nbcompile.reset()
    compiled = nbcompile.compile(f)
    compiled(x, y)
    with profiling("f") as profiler:
        compiled(x, y).sum().backward()
    found = {kernel.id for kernel in profiler.result().kernels}
    assert {name.partition(".")[2] for name in found} == {name.partition(".")[2] for name in known}


def test_a_graph_without_operators_of_aten(matrices):
    """A single kernel, which is launched without Python, is a range, too, while a profiler is active."""
    compiled = nbcompile.compile(lambda x: x.sin() + 1)
    compiled(matrices[0])
    assert [name for name in names(lambda: compiled(matrices[0])) if "kernel0 sin, add" in name]


def test_stages_of_compilation_are_ranges(matrices):
    """A profiler during the first call has the stages of compilation."""
    assert {"nbcompile stage: tracing", "nbcompile stage: lowering"} <= set(
        names(lambda: nbcompile.compile(lambda x, y: (x * y).cos())(*matrices))
    )


def test_results_are_the_same_while_profiled(matrices):
    """Under a profiler the wrapper runs, and its results are bitwise those of the launch plan."""
    compiled = nbcompile.compile(f)
    plain = compiled(*matrices)
    with profiling("f"):
        profiled = compiled(*matrices)
    assert torch.equal(plain, profiled)
    assert torch.equal(plain, compiled(*matrices))


def test_profile_of_a_function(matrices, tmp_path):
    """The profile has calls, bytes, flops and lines, and the trace has the same names."""
    view = nbcompile.profile(f, calls=3, trace=tmp_path / "t.json")(*matrices)
    data = view.data
    assert data.calls == 3
    assert {kernel.calls for kernel in data.kernels} == {3}
    product = next(kernel for kernel in data.kernels if kernel.operators == "mm")
    assert product.flops == 3 * 2 * 16**3
    assert product.bytes == 3 * 3 * 16 * 16 * 4
    assert [line.place.line for line in data.lines] == [HERE + 1, HERE + 2, HERE + 3]
    assert data.lines[1].text == "b = a @ y"
    assert 0 < data.kernel_microseconds <= data.microseconds
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any("kernel0 add, sin" in str(event.get("name")) for event in events)
    text = str(view)
    assert f"{HERE + 2}" in text
    assert "b = a @ y" in text
    assert json.loads(view.to_json())["calls"] == 3
    assert "b = a @ y" in view._repr_mimebundle_()["text/html"]


def test_a_trace_is_what_perfetto_reads(matrices, tmp_path):
    """Each event has the fields of its phase; ranges of a thread are nested; memory is a counter."""
    needed = {
        "X": ("ts", "dur", "pid", "tid"),
        "i": ("ts", "pid", "tid", "s"),
        "M": ("pid", "args"),
        "C": ("ts", "args"),
    }
    nbcompile.profile(f, calls=2, trace=tmp_path / "t.json")(*matrices)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [event for event in events if not {"name", *needed[event["ph"]]} <= event.keys()] == []
    by_thread: dict[object, list[tuple[float, float]]] = {}
    for event in (event for event in events if event["ph"] == "X"):
        by_thread.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for ranges in by_thread.values():
        open_ranges: list[float] = []
        for begin, end in sorted(ranges, key=lambda pair: (pair[0], -pair[1])):
            while open_ranges and open_ranges[-1] <= begin:
                open_ranges.pop()
            assert not open_ranges or end <= open_ranges[-1] + 0.002  # times are rounded to a nanosecond
            open_ranges.append(end)
    curve = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert len(curve) == sum(event["name"] == "[memory]" for event in events) > 0
    assert max(curve) >= 16 * 16 * 4


def test_lines_that_share_a_kernel(matrices):
    """A kernel of two lines is listed at both, each with a reference to the other."""

    def two(x):
        y = x.sin()
        return y + 1

    data = nbcompile.profile(two, calls=1)(matrices[0]).data
    first, second = data.lines
    assert first.shared == (second.place,)
    assert second.shared == (first.place,)
    assert first.kernels == second.kernels


def test_compilation_of_what_a_frame_calls_is_no_time_of_the_frame(matrices):
    """The compilation of a resume function while its frame runs counts as compilation only."""

    @nbcompile.compile
    def halves(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    with profiling("halves") as profiler:
        halves(matrices[0])
    ranges = [event for event in profiler.torchs.events() if event.name.startswith(FRAME)]
    frame = max(event.time_range.elapsed_us() for event in ranges if not event.name.startswith(COMPILE))
    data = profiler.result()
    assert data.calls == 1
    assert data.microseconds < frame / 2


def test_of_a_module_and_of_what_is_not_compiled(matrices):
    """A module can be profiled; a function without tensors has an empty profile that says so."""
    layer = torch.nn.Linear(16, 4)
    assert nbcompile.profile(layer, calls=1)(matrices[0]).data.calls == 1
    assert "No compiled kernel ran." in str(nbcompile.profile(lambda: 3, calls=1)())


def test_bad_input(matrices):
    """No calls, or a nested profiler, are rejected; the function's own error propagates, and profiling ends."""
    with pytest.raises(ValueError, match="at least 1"):
        nbcompile.profile(f, calls=0)
    with profiling("outer"), pytest.raises(RuntimeError, match="another profiler"), profiling("inner"):
        pass

    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), profiling("fails"):
        nbcompile.compile(fails)(matrices[0])
    assert not torch.autograd._profiler_enabled()
    assert nbcompile.profile(f, calls=1)(*matrices).data.calls == 1


def test_roofline():
    """The least time is that of memory or of arithmetic, whichever is longer."""
    machine = Machine(bytes_per_second=1e9, flops_per_second=1e9, threads=1)
    assert KernelTime("k", "add", (), 1, microseconds=10, bytes=5000).roofline(machine) == pytest.approx(0.5)
    assert KernelTime("k", "mm", (), 1, microseconds=10, bytes=5000, flops=8000).roofline(machine) == pytest.approx(0.8)


PROGRAM = """
import torch, nbcompile

@nbcompile.compile
def f(x):
    return (x.sin() * 2).sum()

"""


def test_labels_follow_a_function_that_moved(tmp_path, monkeypatch):
    """A stored function that moved in its file has its new line in another process."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "store"))
    text = """
from nbcompile.tools.profile import profiling
x = torch.ones(8)
f(x)
with profiling("f") as profiler:
    f(x)
print(profiler.result().lines[0].place.line)
"""
    found = []
    for blank in ("", "\n\n\n"):
        (tmp_path / "moved.py").write_text(blank + PROGRAM + text)
        found.append(int(python(tmp_path / "moved.py")))
    assert found[1] == found[0] + 3


def test_view_of_nothing():
    """A profile without kernels has no tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profiling("nothing") as profiler:
            pass
    view = ProfileView(profiler.result())
    assert "No compiled kernel ran." in str(view)
    assert "<table" not in view._repr_mimebundle_()["text/html"]
