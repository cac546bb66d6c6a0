"""An unsupported torch or Python has one clear message; the bounds are defined once."""

from __future__ import annotations

import re
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from nbcompile.support import versions
from tests.support.processes import command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_this_torch_is_supported():
    """For the tested versions there is no message."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.check()


@pytest.mark.parametrize("version", ["2.10.1", "2.6.0+cu124", "1.13"])
def test_an_older_torch(monkeypatch, version):
    """An older torch is an ImportError with its version, and the command that installs another."""
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ImportError, match=r"needs torch 2\.11 or later.*pip install \"torch>=2\.11,<2\.16\"") as raised:
        versions.check()
    assert version in str(raised.value)


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0a0+git12ab", "3.0"])
def test_a_newer_torch(monkeypatch, version):
    """A newer torch is one warning."""
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.warns(
        versions.UnsupportedTorchWarning, match=r"tested with torch 2\.11, 2\.12, 2\.13, 2\.15; "
    ) as warned:
        versions.check()
    assert len(warned) == 1


def test_an_untested_version(monkeypatch):
    """torch 2.14 is within the bounds without being tested; the bounds themselves are tested."""
    assert {versions.TORCH[0], versions.TORCH[1]} <= set(versions.TESTED)
    monkeypatch.setattr(torch, "__version__", "2.14.0")
    assert not versions.is_tested()


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_another_python(monkeypatch, version):
    """A Python with unknown bytecode is an ImportError."""
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    with pytest.raises(ImportError, match=r"needs Python 3\.11 to 3\.13"):
        versions.check()


def test_pip_knows_the_same_bounds():
    """pyproject.toml and the import accept the same versions."""
    torch_bounds = next(Requirement(line).specifier for line in PROJECT["dependencies"] if line.startswith("torch"))
    (oldest, newest), python = versions.TORCH, SpecifierSet(PROJECT["requires-python"])
    for major, minor in (oldest, newest):
        assert f"{major}.{minor}.0" in torch_bounds
    assert f"{oldest[0]}.{oldest[1] - 1}.0" not in torch_bounds
    assert f"{newest[0]}.{newest[1] + 1}.0" not in torch_bounds
    assert all(f"3.{minor}" in python for minor in (11, 12, 13))
    assert not any(f"3.{minor}" in python for minor in (10, 14))
    assert versions.VERSION == PROJECT["version"]


def runs() -> list[list[str]]:
    """The rows of docs/installation.md: torch, Python, date, what was run, how many failed."""
    lines = (ROOT / "docs/installation.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d", line)]
    assert all(len(row) == 5 for row in rows)
    return rows


def version(text: str) -> versions.Version:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def test_the_table_of_runs():
    """Each tested version has a row without failures, and no row is about a rejected version."""
    assert {version(torch_) for torch_, _, _, _, failed in runs() if failed == "0"} == set(versions.TESTED)
    assert all(versions.TORCH[0] <= version(torch_) <= versions.TORCH[1] for torch_, *_ in runs())
    assert {version(python) for _, python, *_ in runs()} == {(3, 11), (3, 12), (3, 13)}
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d|each change", when) for _, _, when, _, _ in runs())


def test_the_pages_name_the_same_bounds():
    """README and the installation page have the same bounds."""
    bounds = [[".".join(map(str, end)) for end in pair] for pair in (versions.TORCH, versions.PYTHON)]
    for page in ("README.md", "docs/installation.md"):
        text = (ROOT / page).read_text()
        assert f"torch {bounds[0][0]} to {bounds[0][1]}" in text
        assert f"Python {bounds[1][0]} to {bounds[1][1]}" in text


def test_the_constraints_name_a_tested_torch():
    """constraints.txt pins a tested version."""
    [pinned] = re.findall(r"^torch==([\d.]+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert version(pinned) in versions.TESTED


@pytest.mark.parametrize("module", ["nbcompile", "nbcompile.teach", "nbcompile.tools.claims"])
def test_without_torch_a_sentence_says_so(module):
    """Without torch, the last line of the traceback says what is missing, where, and how to install it."""
    code = f"import sys; sys.modules['torch'] = None; import {module}"
    last = command(sys.executable, "-c", code, status=1).stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: nbcompile ") and "needs torch, which is not installed for" in last
    assert last.endswith("Install it: pip install torch")
