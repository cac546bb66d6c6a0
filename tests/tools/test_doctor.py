"""The doctor's checks of the environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nbcompile
from nbcompile.__main__ import main
from nbcompile.tools import doctor

PACKAGE = Path(nbcompile.__file__).parent


@pytest.mark.parametrize(
    ("version", "is_there"), [("2.13.0+cpu", True), ("2.14.1", True), ("2.16.0", False), ("2.10.0", False)]
)
def test_versions_of_torch(monkeypatch, version, is_there):
    """A version within the bounds is good, an untested one is marked, and others fail."""
    monkeypatch.setattr(doctor.torch, "__version__", version)
    found = next(finding for finding in doctor.examine() if finding.what == "torch")
    assert (found.there, found.needed) == (is_there, True)
    assert ("tested with" in found.words) == (version != "2.13.0+cpu")
    assert version in found.words


def environment() -> doctor.Finding:
    return next(finding for finding in doctor.examine() if finding.what == "environment")


def test_a_variable_without_a_meaning_is_named(monkeypatch):
    """A variable of torch.compile that has no effect here is reported."""
    for name in list(doctor.os.environ):
        if name.startswith(doctor.OF_TORCH_COMPILE):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TORCHDYNAMO_VERBOSE", "1")
    assert environment().there
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    assert not environment().there
    assert "TORCHINDUCTOR_MAX_AUTOTUNE" in environment().words
    assert not environment().needed


def test_the_list_of_variables_is_that_of_the_source():
    """Each listed variable is read by some module, by this name."""
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "doctor.py")
    assert [name for name in doctor.VARIABLES if not re.search(rf'"{name}"', source)] == []


def test_doctor(capsys):
    """The doctor passes here, and lists each check."""
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    for what in (
        "Python",
        "torch",
        "C++ compiler",
        "Graphviz",
        "Triton",
        "CUDA device",
        "kernel store",
        "function store",
    ):
        assert what in told


def test_doctor_without_tools(monkeypatch):
    """A missing tool is reported with its consequence, and does not fail."""
    monkeypatch.setattr(doctor.toolchain, "find", lambda: doctor.toolchain.NoCompiler("no C++ compiler: none"))
    monkeypatch.setattr(doctor.dot, "arrange", lambda shown: None)
    found = {finding.what: finding for finding in doctor.examine()}
    assert not found["C++ compiler"].there
    assert "through ATen" in found["C++ compiler"].words
    assert "as tables" in found["Graphviz"].words
    assert not any(finding.needed and not finding.there for finding in found.values())
