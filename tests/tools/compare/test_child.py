"""The process that runs a job with one compiler, run in this process here."""

from __future__ import annotations

import marshal
import pickle
import sys

import pytest
import torch

import nbcompile
from nbcompile.record import codec
from nbcompile.tools.compare import child, job
from nbcompile.tools.compare.job import CallJob, CellJob, Job, ScriptJob

pytestmark = pytest.mark.usefixtures("nothing_compiled")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a job with our compiler, and return result and record. The names of both compilers are restored."""
    for package in (torch, nbcompile):
        monkeypatch.setattr(package, "compile", package.compile)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(job, "apply_settings", lambda settings: None)

    def run(work):
        monkeypatch.setattr(job, "read_job", lambda folder: Job(work, {}))
        child.main("nbcompile", tmp_path)
        result = pickle.loads((tmp_path / job.RESULT).read_bytes())
        return result, codec.from_json((tmp_path / job.RECORD).read_text())

    return run


def double(x, by=2.0):
    return x * by


def fails(x):
    raise ValueError("of the program\nand more")


class Thing:
    """A class that no other process can read."""


def gives_a_thing(x):
    return x + 1, Thing()


X = torch.linspace(-1, 1, 5)


def test_calls_are_run_compiled_and_in_eager_mode(run):
    """Each call has its outcome, the eager one, and one in float64 without keywords; times are measured."""
    result, record = run(CallJob(double, (((X,), {}), ((X,), {"by": 3.0}))))
    assert [found.values[0].tolist() for found in result["outcomes"]] == [(X * 2).tolist(), (X * 3).tolist()]
    assert [torch.equal(a.values[0], b.values[0]) for a, b in zip(result["eager"], result["outcomes"], strict=True)]
    exact, not_run = result["exact"]
    assert exact.values[0].dtype == torch.float64 and not_run.error == "not run in float64"
    assert result["call_seconds"] >= 0 and result["first_call_seconds"] > 0
    assert record.frames[0].function == "double" and "failure" not in result


def test_an_exception_is_an_outcome_of_a_call(run):
    """An exception is a call's outcome and no failure of the process; nothing is timed."""
    result, _ = run(CallJob(fails, (((X,), {}),)))
    assert "ValueError" in result["outcomes"][0].error and "failure" not in result
    assert "call_seconds" not in result


def test_an_object_is_the_name_of_its_class(run):
    """An object that the parent cannot read is its class's name."""
    result, _ = run(CallJob(gives_a_thing, (((X,), {}),)))
    assert [value for value in result["outcomes"][0].values if isinstance(value, str)] == ["Thing"]


@pytest.mark.parametrize(("text", "failure"), [
    ("raise ValueError('first line\\nsecond')", "ValueError: first line"),
    ("import sys; sys.exit(3)", "exit code 3"),
    ("import sys; sys.exit()", None),
    ("import sys; assert sys.argv[1:] == ['--more']", None),
    ("assert __name__ == '__main__'", None),
])  # fmt: skip
def test_a_script_ends_as_it_ends(run, tmp_path, text, failure):
    """The failure is the script's exception or exit code; the script has its own arguments."""
    path = tmp_path / "script.py"
    path.write_text(text + "\n")
    result, _ = run(ScriptJob(str(path), ("--more",)))
    assert result.get("failure") == failure


@pytest.mark.parametrize("name", ["torch", "nbcompile"])
def test_a_script_that_names_either_compiler_is_compiled_by_the_chosen_one(run, tmp_path, name):
    """``torch.compile`` in the program is ours here, and the record has its frame."""
    path = tmp_path / "script.py"
    path.write_text(f"import torch, nbcompile\ndef g(x): return x.sin()\n{name}.compile(g)(torch.ones(3))\n")
    result, record = run(ScriptJob(str(path)))
    assert [frame.function for frame in record.frames] == ["g"]
    assert result["program_seconds"] > 0


def test_a_cell_runs_with_what_it_had(run):
    """The statements of a cell run in order, in a separate namespace, with the compiler in the wrapper."""
    compiled = []

    def wrap(compiler, names):
        compiled.append(compiler(double, dynamic=False))
        return compiled[0]

    codes = [compile(text, "cell", "exec") for text in ("y = wrapper(x)", "seen.append((y, __name__))")]
    seen = []
    work = CellJob(tuple(map(marshal.dumps, codes)), {"x": X, "seen": seen}, "wrapper", wrap)
    result, record = run(work)
    assert seen[0][1] == "__main__" and torch.equal(seen[0][0], X * 2)
    assert record.frames[0].function == "double" and "failure" not in result


def test_both_names_mean_the_real_compiler(monkeypatch, tmp_path):
    """With the other engine, ``nbcompile.compile`` in a program is torch's."""
    monkeypatch.setattr(nbcompile, "compile", nbcompile.compile)
    with child._engine("torch", tmp_path) as compiler:
        assert compiler is torch.compile and sys.modules["nbcompile"].compile is torch.compile
    assert not (tmp_path / job.RECORD).exists()
