"""The process of each compiler: its environment, and its result files."""

from __future__ import annotations

import pickle

import pytest

from nbcompile.tools import child_process
from nbcompile.tools.compare import job as jobs, processes


def ended(code: int, errors: str = "") -> child_process.ProcessResult:
    return child_process.ProcessResult(code, "", errors)


def test_only_the_real_compiler_writes_a_trace(monkeypatch, tmp_path):
    """The trace is the real compiler's, without its caches, because a cached graph is not compiled; no logs."""
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    ours, theirs = (processes._environment(engine, tmp_path) for engine in ("nbcompile", "torch"))
    assert "TORCH_TRACE" not in ours
    assert theirs["TORCH_TRACE"] == str(tmp_path / "trace")
    assert theirs["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] == "1"
    assert "TORCH_LOGS" not in {**ours, **theirs}


@pytest.mark.parametrize(
    ("code", "errors", "expected"),
    [
        (3, "a line\nValueError: x", "exit code 3: ValueError: x"),
        (-11, "", "killed by signal 11"),
        (0, "", "ended before it was finished, with exit code 0 (os._exit?)"),
        (child_process.HUNG, "", "did not end within 5 seconds"),
    ],
    ids=["error", "signal", "early", "hung"],
)
def test_the_failure_of_a_process_is_named(tmp_path, code, errors, expected):
    """The failure has the exit code and the last line of output; without a record the notes say so."""
    found = processes._finished("nbcompile", tmp_path, ended(code, errors), 5)
    assert found.result["failure"] == expected
    assert found.notes[0].startswith("nothing that nbcompile compiled was recorded")


def test_the_failure_that_the_child_found_stays(tmp_path):
    """The result's own failure is more precise than the exit code."""
    (tmp_path / jobs.RESULT).write_bytes(pickle.dumps({"failure": "the program raised"}))
    assert processes._finished("nbcompile", tmp_path, ended(1, "x"), 5).result["failure"] == "the program raised"
