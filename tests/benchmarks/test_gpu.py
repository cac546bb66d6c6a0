"""``make gpu``: finished parts are not repeated, failures are reported, and the page has a table per part."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from benchmarks.gpu import __main__ as command, checks, fifty, parts, report
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
        return ("ValueError: no" if name == "checks" else ""), name == "kernels" and names.count(name) == 1

    monkeypatch.setattr(command, "_run_part", run_part)
    monkeypatch.setattr(report, "page", lambda found, _: " ".join(found))
    return names


def test_a_part_that_is_done_is_not_done_again(ran, tmp_path):
    """The next run repeats only failed parts; --again repeats all named parts."""
    assert command.run_all(["doctor", "checks"], True, False, 480, tmp_path) == 1
    assert command.run_all(["doctor", "checks"], True, False, 480, tmp_path) == 1
    assert command.run_all(["doctor"], True, True, 480, tmp_path) == 1
    assert ran == ["doctor", "checks", "checks", "doctor"]
    assert (tmp_path / "page.md").read_text() == "doctor checks"


def test_parts_of_another_compiler_are_not_on_the_page(ran, tmp_path, monkeypatch):
    """With another torch, the page has only the parts of this run."""
    assert command.run_all(["doctor", "checks", "launches"], True, False, 480, tmp_path) == 1
    monkeypatch.setattr(command, "key_of_all", lambda: "another torch")
    assert command.run_all(["launches"], True, False, 480, tmp_path) == 0
    assert (tmp_path / "page.md").read_text() == "launches"
    assert list(json.loads((tmp_path / "gpu.json").read_text())["parts"]) == ["launches"]


def test_a_part_that_was_cut_off_is_run_again(ran, tmp_path, capsys):
    """A part that was cut off is run again until it ends; meanwhile it is no failure, and the output says so."""
    assert command.run_all(["doctor", "kernels"], True, False, 480, tmp_path) == 0
    assert "kernels: its time is up; run the command again" in capsys.readouterr().out
    for _ in range(2):
        assert command.run_all(["doctor", "kernels"], True, False, 480, tmp_path) == 0
    assert ran == ["doctor", "kernels", "kernels"]


@contextlib.contextmanager
def no_gpu(standin):
    """A context without a GPU, which these parts do not need."""
    yield None


@pytest.fixture
def own_parts(monkeypatch):
    """A part of four programs, of which a run measures as many as it has seconds: its clock counts programs."""
    asked = []

    def kernels(gpu, until, done):
        steps = [(name, trains) for name in ("add", "mul") for trains in (False, True) if (name, trains) not in done]
        for count, (name, trains) in enumerate(steps):
            if count >= until:
                raise parts.TimeIsUp
            asked.append((name, trains))
            modes = {"default": parts.TIME_WAS_UP} if (name, trains, count) == ("mul", False, 1) else {}
            yield {"name": name, "trains": trains, "modes": modes}

    monkeypatch.setitem(parts.PARTS, "kernels", kernels)
    monkeypatch.setattr(command.machine, "opened", no_gpu)
    monkeypatch.setattr(command.time, "monotonic", lambda: 0.0)
    return asked


def finish(folder, status: int) -> None:
    """Write the files that ``run_all`` writes after a part."""
    rows = [json.loads(line) for line in (folder / "kernels.jsonl").read_text().splitlines()]
    done = {"key": command.key_of_all(), "rows": rows, "error": "", "cut_off": status == command.CUT_OFF}
    (folder / "kernels.json").write_text(json.dumps(done))


def test_what_was_measured_is_kept_and_the_rest_is_measured(own_parts, tmp_path):
    """The next run continues where the last was cut off, and repeats a row without torch.compile's times."""
    assert command.run_here("kernels", True, 1, tmp_path) == command.CUT_OFF
    finish(tmp_path, command.CUT_OFF)
    assert command.run_here("kernels", True, 2, tmp_path) == command.CUT_OFF
    finish(tmp_path, command.CUT_OFF)
    assert command.run_here("kernels", True, 9, tmp_path) == 0
    finish(tmp_path, 0)
    assert own_parts == [("add", False), ("add", True), ("mul", False), ("mul", False), ("mul", True)]
    rows = json.loads((tmp_path / "kernels.json").read_text())["rows"]
    assert [(row["name"], row["trains"]) for row in rows] == [
        ("add", False), ("add", True), ("mul", False), ("mul", True)
    ]  # fmt: skip
    assert not any(map(parts.what_is_left, rows))


def test_rows_of_another_compiler_are_not_kept(own_parts, tmp_path, monkeypatch):
    """With another nbcompile, other versions or another GPU, a part that was cut off begins again."""
    assert command.run_here("kernels", True, 1, tmp_path) == command.CUT_OFF
    finish(tmp_path, command.CUT_OFF)
    monkeypatch.setattr(command, "key_of_all", lambda: "another")
    assert command.run_here("kernels", True, 1, tmp_path) == command.CUT_OFF
    assert own_parts == [("add", False)] * 2


@pytest.mark.parametrize("name", ["checks", "kernels", "models", "predictions"])
def test_each_part_says_that_its_time_was_up(name, monkeypatch):
    """A part that is cut off raises TimeIsUp; one whose programs are all done ends at once."""
    with pytest.raises(parts.TimeIsUp):
        next(parts.PARTS[name](None, time.monotonic() - 1, ()))
    names = [*KERNELS, *MODELS, *(page[0] for page in parts.checks.pages())]
    done = {(program, trains) for program in names for trains in (False, True)}
    assert list(parts.PARTS[name](None, time.monotonic() - 1, done)) == []


def test_a_change_of_the_compiler_makes_all_parts_new(ran, tmp_path, monkeypatch):
    """The key has the versions and nbcompile's files."""
    command.run_all(["doctor"], True, False, 480, tmp_path)
    monkeypatch.setattr(command, "key_of_all", lambda: "another")
    command.run_all(["doctor"], True, False, 480, tmp_path)
    assert ran == ["doctor", "doctor"]


def test_what_the_time_does_not_allow_is_left_for_the_next_run(ran, tmp_path, capsys):
    """No part starts in the last five seconds."""
    command.run_all(["doctor", "calibration"], True, False, 3, tmp_path)
    assert ran == []
    assert "run the command again" in capsys.readouterr().out


def test_an_unknown_part_is_rejected():
    """An unknown part is rejected, with the known names."""
    done = processes.command(sys.executable, "-m", "benchmarks.gpu", "kernel", folder=ROOT, status=2)
    assert "there is no part kernel: doctor, launches, checks" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_way_out_is_named():
    """Without a GPU, ``make gpu`` says that the stand-in needs none."""
    done = processes.command(sys.executable, "-m", "benchmarks.gpu", "--one", "doctor", folder=ROOT, status=1)
    assert "make gpu STANDIN=1" in done.stderr.splitlines()[-1]


def test_the_page_has_a_table_for_each_part():
    """Ratios and rates are computed; a program that differs is listed; a failed part has its reason."""
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
    found["launches"]["cut_off"] = True
    text = report.page(found, "make gpu")
    assert text.count("**Its time was up**") == 1
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
    """Each program runs at the simulator's size, and each parameter has a gradient in training."""
    program = {**KERNELS, **MODELS}[name]
    function, inputs = program.make(SMALL)
    result = function(*inputs)
    if isinstance(function, torch.nn.Module):
        assert torch.autograd.grad(result.sum(), list(function.parameters()))


def test_there_are_as_many_as_declared():
    """There are at least 25 kernels and 6 models."""
    assert len(KERNELS) >= 25
    assert len(MODELS) >= 6


@pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU")
def test_a_part_runs_on_the_stand_in():
    """The doctor's part launches a kernel through the stand-in driver, and reports the machine."""
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


def test_bits_of_a_view_are_those_of_its_elements():
    """A simulated result may be a view of a longer tensor, of which the device returns a part; zeros have signs."""
    x = torch.tensor([1.0, -0.0, 2.0, 3.0])
    assert checks._equal_bits(x[1:], x[1:].clone())
    assert checks._equal_bits(x.view(2, 2).mT, x.view(2, 2).mT.contiguous())
    assert not checks._equal_bits(x[1:], x[1:].abs())
    assert not checks._equal_bits(x[1:], x[:3])
