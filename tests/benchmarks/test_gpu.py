"""``make gpu``: parts that are done stay done, what fails is said, and the page has a table for each part."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from benchmarks.gpu import __main__ as command, fifty, report
from benchmarks.gpu.programs import KERNELS, MODELS, SMALL
from tests.support import processes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """The parts that ``run_all`` starts, each with one row; ``checks`` fails."""
    names = []

    def run_part(name, standin, seconds):
        names.append(name)
        row = {"name": "add", "equal": True, "bits": None, "reason": ""} if name == "checks" else {"name": name}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
        return "ValueError: no" if name == "checks" else ""

    monkeypatch.setattr(command, "_run_part", run_part)
    monkeypatch.setattr(report, "page", lambda found, _: " ".join(found))
    return names


def test_a_part_that_is_done_is_not_done_again(ran, tmp_path):
    """The next run does what failed, and nothing else; --again does all of what is named."""
    assert command.run_all(["doctor", "checks"], True, False, 480, tmp_path) == 1
    assert command.run_all(["doctor", "checks"], True, False, 480, tmp_path) == 1
    assert command.run_all(["doctor"], True, True, 480, tmp_path) == 1
    assert ran == ["doctor", "checks", "checks", "doctor"]
    assert (tmp_path / "page.md").read_text() == "doctor checks"


def test_a_change_of_the_compiler_makes_all_parts_new(ran, tmp_path, monkeypatch):
    """The key has versions and nbcompile's files."""
    command.run_all(["doctor"], True, False, 480, tmp_path)
    monkeypatch.setattr(command, "key_of_all", lambda: "another")
    command.run_all(["doctor"], True, False, 480, tmp_path)
    assert ran == ["doctor", "doctor"]


def test_what_the_time_does_not_allow_is_left_for_the_next_run(ran, tmp_path, capsys):
    """No part is started in the last five seconds."""
    command.run_all(["doctor", "calibration"], True, False, 3, tmp_path)
    assert ran == []
    assert "run the command again" in capsys.readouterr().out


def test_an_unknown_part_is_refused():
    """With the names of those that there are."""
    done = processes.command(sys.executable, "-m", "benchmarks.gpu", "kernel", folder=ROOT, status=2)
    assert "there is no part kernel: doctor, launches, checks" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_way_out_is_named():
    """``make gpu`` on a laptop says that the stand-in needs none."""
    done = processes.command(sys.executable, "-m", "benchmarks.gpu", "--one", "doctor", folder=ROOT, status=1)
    assert "make gpu STANDIN=1" in done.stderr.splitlines()[-1]


def test_the_page_has_a_table_for_each_part():
    """Ratios and rates are computed; a program that differs is listed; a part that failed says why."""
    machine = {"gpu": "a GPU", "chip": "sm_90", "driver": 13010, "torch": "2.13", "triton": "3.9", "python": "3.12"}
    kernel = {"name": "add", "trains": False, "equal": True, "first_call_s": 0.5, "eager_us": 30.0, "nbcompile_us": 10.0,
              "torch_default_us": 20.0, "bytes": 40_000_000}  # fmt: skip
    rows = {
        "doctor": [machine],
        "launches": [{"name": "one kernel", "nbcompile_us": 0.5, "triton_us": 10.0}],
        "checks": [{"name": "relu", "equal": False, "bits": None, "reason": "not close"},
                   {"name": "sin", "equal": True, "bits": True, "reason": ""}],
        "calibration": [{"name": "copy", "us": 10.0, "bytes_per_second": 4e12, "of_sheet": 0.83}],
        "kernels": [kernel],
        "predictions": [{"name": "add", "predicted_us": 3.0, "roofline_us": 2.0, "measured_us": 4.0, "error": 0.75}],
    }  # fmt: skip
    found = {name: {"rows": part, "error": "", "seconds": 1.0} for name, part in rows.items()}
    found["kernels"]["error"] = "RuntimeError: cut off"
    text = report.page(found, "make gpu")
    assert "# Measured on a GPU" in text
    assert "CUDA 13.1" in text
    assert "| one kernel | 0.5 | 10 | 0.05 |" in text
    assert "2 programs: 2 ran, 1 are equal to eager mode; of 1 without approximate instructions 1" in text
    assert "| relu | **no** | – | not close |" in text
    assert "| add | yes | 0.5 | 30 | 20 | – | 10 | 4e+03 | 2 |" in text
    assert "**It ended early**: RuntimeError: cut off" in text
    assert "Not run." in text


@pytest.mark.parametrize("name", [*KERNELS, *MODELS])
def test_programs_run_in_eager_mode(name):
    """Each program runs at the size of the simulator, and every parameter has a gradient where it trains."""
    program = {**KERNELS, **MODELS}[name]
    function, inputs = program.make(SMALL)
    result = function(*inputs)
    if isinstance(function, torch.nn.Module):
        assert torch.autograd.grad(result.sum(), list(function.parameters()))


def test_there_are_as_many_as_promised():
    """25 kernels and 6 models, at least."""
    assert len(KERNELS) >= 25
    assert len(MODELS) >= 6


@pytest.mark.skipif(torch.version.cuda is not None, reason="the stand-in device needs a torch without CUDA")
def test_a_part_runs_on_the_stand_in():
    """The doctor's part launches a kernel through the stand-in driver, and says what is there."""
    processes.command(sys.executable, "-m", "benchmarks.gpu", "--standin", "--one", "doctor", folder=ROOT)
    (row,) = map(json.loads, (ROOT / "build/gpu-standin/doctor.jsonl").read_text().splitlines())
    assert row["chip"] == "sm_90"
    assert row["kernels"]


def test_the_fifty_kernels_are_fifty():
    """No two inputs have one size, so that no two kernels have one text; each part has a finite result."""
    function, inputs = fifty.program(rows=4)
    assert len({x.shape for x in inputs}) == len(inputs) == fifty.COUNT
    results = function(*inputs)
    assert len(results) == fifty.COUNT
    assert all(bool(result.isfinite().all()) for result in results)
