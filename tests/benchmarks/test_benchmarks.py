"""The benchmark reports failures, ratios and times correctly."""

from __future__ import annotations

import json
import math
import re
import sys
import time

import pytest
import torch

import nbcompile
from benchmarks import (
    __main__ as bench,
    capture,
    larger,
    models,
    report,
    running,
    stream,
    tasks,
    timing,
    ulp,
    workloads,
)
from tests.support.processes import command


def row(compiler, value, failure=""):
    """A result of one workload."""
    return {"group": "g", "name": "w", "compiler": compiler, "value": value, "unit": "s", "failure": failure}


def test_ratios_are_ours_over_theirs():
    """0.5 of torch.compile's time is printed as 0.500."""
    text = report.markdown([row("eager", 4e-3), row("torch.compile", 2e-3), row("nbcompile", 1e-3)], {})
    assert "| w | 4 ms | 2 ms | 1 ms | 0.250 | 0.500 |" in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.9997, "1 s"), (0.9994, "999 ms"), (2e-6, "2 us"), (9.996e-7, "1 us"), (0.0, "0 ns")]
)
def test_a_time_has_the_unit_that_fits_its_digits(value, text):
    """A time that is rounded up to a thousand has the next unit."""
    assert report.seconds(value) == text


def test_a_failure_is_shown_with_its_reason():
    """A failed workload has no number and no ratio, and its reason is listed."""
    text = report.markdown([row("torch.compile", 2e-3), row("nbcompile", None, "ValueError: no")], {})
    assert "| w | 2 ms | failed | - |" in text
    assert "- nbcompile: ValueError: no. In: g (w)" in text


def test_the_best_of_repeated_starts_is_kept():
    """The least value is kept, and a failure only if no run succeeded."""
    kept = bench._least([row("a", None, "x"), row("a", 2.0), row("a", 1.0), row("a", None, "y"), row("b", None, "z")])
    assert [(each["compiler"], each["value"]) for each in kept] == [("a", 1.0), ("b", None)]


def test_a_crash_costs_one_compiler_only(monkeypatch, tmp_path):
    """If the process crashes in our compiler, ours is marked, and the others are measured again without it."""
    jobs = []

    def process(self, job, cache, extra):
        jobs.append(job["compilers"])
        dead = "nbcompile" in job["compilers"]
        return [row("eager", 1.0)], "the process was ended by SIGSEGV" if dead else ""

    monkeypatch.setattr(bench.Bench, "_process", process)
    run = bench.Bench(tmp_path, quick=True, threads=1)
    run.run({"task": "per_call", "compilers": ["eager", "nbcompile"]})
    assert jobs == [["eager", "nbcompile"], ["eager"]]
    assert [(each["compiler"], each["failure"]) for each in run.rows] == [
        ("nbcompile", "the process was ended by SIGSEGV"), ("eager", ""),
    ]  # fmt: skip


def test_a_run_that_is_cut_keeps_what_it_has(monkeypatch, tmp_path):
    """Results are written after each process, not at the end."""
    monkeypatch.setattr(bench.Bench, "_process", lambda self, job, cache, extra: ([row("nbcompile", 1.0)], ""))
    run = bench.Bench(tmp_path, quick=True, threads=1, out=tmp_path / "out")
    run.run({"task": "per_call", "compilers": ["nbcompile"]})
    assert json.loads((tmp_path / "out" / "bench.json").read_text())["rows"] == [row("nbcompile", 1.0)]


def test_models_and_sizes_may_be_chosen(monkeypatch, tmp_path):
    """The compile in advance has exactly the models and sizes of the measurement."""
    jobs = []
    monkeypatch.setattr(bench.Bench, "_process", lambda self, job, cache, extra: (jobs.append(job), ([], ""))[1])
    run = bench.Bench(tmp_path, quick=False, threads=1, models=("bert", "t5"), model_sizes=("larger",))
    bench.models(run)
    assert sorted((job["models"][0], job["size"], job["rounds"]) for job in jobs) == [
        ("bert", "larger", 0), ("bert", "larger", 15), ("t5", "larger", 0), ("t5", "larger", 15),
    ]  # fmt: skip


def test_a_task_prints_its_results_line_by_line():
    """A task in a separate process measures eager mode, and reports a missing compiler."""
    job = {"task": "per_call", "compilers": ["eager"], "rounds": 1, "threads": 1}
    done = command(sys.executable, "-m", "benchmarks.tasks", json.dumps(job), folder=bench.ROOT)
    told = bench._told(done.stdout)
    assert [each["name"] for each in told] == ["3 operators, 4 elements", "the same, requires_grad"]
    assert all(0 < each["value"] < 0.1 for each in told)


def test_a_mean_of_ratios_is_the_ratio_of_means():
    """The mean of a group is geometric, without failures."""
    rows = [row("nbcompile", 1.0), row("nbcompile", 4.0), row("nbcompile", None, "x"), row("torch.compile", 9.0)]
    assert report.means(rows, "g", "nbcompile")["value"] == pytest.approx(2.0)


def test_other_call_nodes_are_listed():
    """An operator of one graph only is named, with both counts."""
    rows = [{**row("nbcompile", 2), "detail": {"add": 2}}, {**row("torch.compile", 3), "detail": {"add": 2, "mul": 1}}]
    assert "- w: mul: nbcompile 0, torch.compile 1" in report.markdown(rows, {})
    assert "None." in report.markdown([{**rows[0]}, {**rows[0], "compiler": "torch.compile"}], {})


@pytest.fixture
def modules_as_before():
    """A model library adds a method to ``nn.Module``, which later tests must not see."""
    names = set(vars(torch.nn.Module))
    yield
    for name in set(vars(torch.nn.Module)) - names:
        delattr(torch.nn.Module, name)


@pytest.mark.usefixtures("modules_as_before")
def test_a_captured_model_is_counted_and_checked():
    """A captured model has graphs, call nodes, seconds and an error, with gradients."""
    found = capture.capture("nbcompile", models.MODELS["vit"], learning=True)
    assert (found["graphs"], found["error"]) == (1, 0.0)
    assert found["nodes"]["linear"] > 0
    assert 0 < found["to graph"] < found["in all"]


@pytest.mark.usefixtures("modules_as_before")
def test_a_running_model_is_counted_and_checked():
    """A running model has the share of generated code, and the error of a training step."""
    module, inputs = running.prepared(models.MODELS["vit"], learning=True)
    expected = running.step(module, module, inputs, learning=True)
    call = nbcompile.compile(module)
    share, result = running.share(lambda: running.step(call, module, inputs, learning=True))
    assert running.error(result, expected) < 1e-4
    assert share.nodes > 100
    assert share.percent() > 95
    rows = [{**row("nbcompile", 1), "operators": {"aten.sort": 2, "aten.topk": 1}}]
    assert "- w: aten.sort (2), aten.topk" in report.markdown(rows, {})


def test_a_wrong_model_has_no_time():
    """A wrong result, NaN too, is an error without a time."""
    right = torch.ones(3)
    running.check([right, right], [right, right])
    for wrong in (right + torch.tensor([0.0, 0.0, 0.01]), right * math.nan):
        with pytest.raises(ValueError, match="relative error"):
            running.check([right, wrong], [right, right])


def test_the_larger_models_are_the_same_models():
    """Both sizes have the same twelve models; a larger one has more parameters."""
    assert all(tuple(each) == bench.CAPTURED for each in larger.SIZES.values())
    assert tuple(larger.SIZES) == bench.MODEL_SIZES
    small, large = (models.make(each["vit"])[0] for each in larger.SIZES.values())
    assert sum(each.numel() for each in large.parameters()) > 10 * sum(each.numel() for each in small.parameters())


def test_slower_code_is_measured_as_slower():
    """The clock is the CPU time of this process, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert timing.clock() is time.process_time
        took = timing.best({"one": lambda: sum(range(2000)), "ten": lambda: sum(range(20000))}, rounds=5, seconds=0.01)
    finally:
        torch.set_num_threads(threads)
    assert 5 < took["ten"] / took["one"] < 20


@pytest.mark.parametrize("name", [name for name in workloads.PROGRAMS if "1e7" not in name])
def test_each_program_is_finite_and_the_same_each_time(name):
    """A program that is created twice has equal, finite results, also with state."""
    first, second = (workloads.fresh(workloads.PROGRAMS[name]) for _ in range(2))
    one, other = (each.called(each.function)() for each in (first, second))
    torch.testing.assert_close(one, other)
    assert all(torch.isfinite(each).all() for each in (one if isinstance(one, (list, tuple)) else [one]))


def test_there_are_sixteen_programs():
    """There are sixteen programs, the quick run's among them."""
    assert len(workloads.PROGRAMS) == 16
    assert set(workloads.QUICK) < set(workloads.PROGRAMS)


def test_the_chain_has_ten_operators():
    """The chain has ten operators, as its name says."""
    program = workloads.chain10(8)
    graph = torch.fx.symbolic_trace(program.function).graph
    assert sum(node.op in ("call_function", "call_method") for node in graph.nodes) == 10
    assert program.called(program.function)().shape == (8,)


def test_the_triad_is_the_triad():
    """The triad is STREAM's third kernel, over arrays beyond the caches."""
    _, (a, b, c) = stream.triad(threads=2)()
    assert a.numel() * a.itemsize * 3 == stream.BYTES
    assert (a == b + 3 * c).all()


def test_results_are_checked_against_eager():
    """A candidate with a wrong result is dropped."""
    program = workloads.fresh(lambda: workloads.softmax(4, 8))
    with pytest.raises(AssertionError):
        tasks._assert_close(program.arguments[0], program)
    tasks._assert_close(program.function(*program.arguments), program)


def test_slope_is_the_slope():
    """The slope is that of a least squares line."""
    assert report.slope([(1, 5.0), (2, 7.0), (4, 11.0)]) == pytest.approx(2.0)


@pytest.mark.parametrize("name", ulp.FUNCTIONS)
def test_compiled_mathematics_is_as_exact_as_the_table_says(name):
    """The errors of a sample are within the table's: at most 2 ulp (a few more for three); NaN and inf are exact."""
    (row,) = ulp.rows(every=100_003, names=(name,))
    assert row.ours <= {"gelu": 5, "log10": 3, "sigmoid": 3}.get(name, 2), row
    assert row.limits_differ == 0


def test_units_in_the_last_place():
    """An ulp is the distance to the next float; a wrong limit counts as an error."""
    exact = torch.tensor([1.0 + 2.0**-25, 1.0, math.inf, math.nan], dtype=torch.float64)
    found = torch.tensor([1.0, 1.0, math.inf, math.nan])
    assert ulp.units(found, exact).tolist() == [0, 0, 0, 0]
    assert ulp.units(torch.tensor([1.0 + 2.0**-23]), torch.tensor([1.0], dtype=torch.float64)).item() == 2
    assert ulp.units(torch.tensor([1.0]), torch.tensor([math.nan], dtype=torch.float64)).item() == math.inf


def in_group(group, name, **values):
    """The times of each compiler for one program."""
    return [
        {**row(compiler.replace("_", "."), value), "group": group, "name": name} for compiler, value in values.items()
    ]


def test_the_page_of_the_documentation_says_what_was_run():
    """docs/benchmarks.md has the command, the machine and the ratios: it is the report with another title."""
    rows = [row("torch.compile", 2.0), row("nbcompile", 1.0)]
    text = report.page(report.markdown(rows, {"machine": "a small one"}), rows, ["--docs", "kernels"])
    assert text.startswith("# Benchmarks\n")
    assert "`python -m benchmarks --docs kernels`" in text
    assert "- machine: a small one" in text and "| w | 2 s | 1 s | 0.500 |" in text
    assert text.count("\n# ") == 0
    assert "## In short" not in text, "no group of the summary was measured"


def test_the_page_begins_with_the_ratios():
    """Programs that a compiler failed do not count; the chart has the table's numbers; the rest is folded."""
    rows = [
        *in_group("kernels", "a", eager=4.0, torch_compile=2.0, nbcompile=1.0),
        *in_group("kernels", "b", eager=4.0, torch_compile=8.0, nbcompile=1.0),
        *in_group("kernels", "c", eager=4.0, torch_compile=None, nbcompile=4.0),
        *in_group("kernels", report.NAME_OF_MEAN, eager=1.0, torch_compile=1.0, nbcompile=9.0),
        *in_group("cold start", "a", torch_compile=10.0, nbcompile=1.0),
        *in_group("bandwidth", "a", torch_compile=1.0, nbcompile=2.0),
    ]
    assert report.ratios(rows) == [("cold start", 1, "-", "0.100"), ("kernels", 3, "0.397", "0.250")]
    text = report.page(report.markdown(rows, {}), rows, [])
    short, _, rest = text.partition("## All measurements")
    kernels = report.IN_SHORT["kernels"]
    assert f"| {kernels} | 3 | 0.397 | 0.250 |" in short
    assert (
        f"```{{ratios}} nbcompile / torch.compile\n{report.IN_SHORT['cold start']}: 0.100\n{kernels}: 0.250\n```"
        in short
    )
    assert rest.count("<details><summary>") == rest.count("</details>") == 3
    assert "<summary>kernels</summary>\n\n|  | eager |" in rest


def test_the_page_in_the_repository_is_of_that_form():
    """docs/benchmarks.md begins with the summary, and the chart has its numbers."""
    text = bench.PAGE.read_text()
    short, _, rest = text.partition("## All measurements")
    table = dict(re.findall(r"^\| ([^|]+) \| \d+ \| [^|]+ \| ([\d.]+) \|$", short, re.MULTILINE))
    drawn = dict(
        line.split(": ") for line in re.search(r"```\{ratios\}.*?\n(.*?)```", short, re.DOTALL)[1].splitlines()
    )
    assert table == drawn and set(table) <= set(report.IN_SHORT.values()) and len(table) >= 5
    assert not re.findall(r"^\|", rest.replace("</details>", "<details>").split("<details>")[0], re.MULTILINE)


def test_triad_is_built_with_the_compiler_of_kernels():
    """The C++ triad is compiled, runs, and is correct."""
    _, arrays = stream.triad(1)()
    assert bool((arrays[0] == 4).all())
