"""nbcompile/teach/colab.py: lectures that Colab opens, with a first cell that installs the right torch."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import types
from pathlib import PurePosixPath

import nbformat
import pytest

from nbcompile.teach import colab
from nbcompile.tools.commands.command_line import main

ADDRESS = "https://github.com/you/nbcompile"


def test_every_lecture_begins_with_the_badge(tmp_path, monkeypatch, capsys):
    """Each of six notebooks has a badge with its own link, then the install cell, then the lecture's first cell."""
    monkeypatch.chdir(tmp_path)
    assert main(["teach", "colab", ADDRESS, "--branch", "next", "-o", "hosted"]) == 0
    written = capsys.readouterr().out.split()
    assert [path[:8] for path in written] == [f"hosted/{number}" for number in range(1, 7)]
    for path in written:
        badge, install, title = nbformat.read(path, 4).cells[:3]
        assert badge.source.startswith("[![Open in Colab](https://")
        assert f"(https://colab.research.google.com/github/you/nbcompile/blob/next/{path})" in badge.source
        assert install.cell_type == "code" and title.source.startswith("# Lecture")


@pytest.fixture
def installed(monkeypatch):
    """The commands that a cell would run."""
    seen = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: seen.append(command))
    return seen


def run_install():
    repository = colab.Repository(ADDRESS, "main", PurePosixPath("notebooks/colab"))
    exec(colab.notebook(colab.lectures()[0], repository).cells[1].source, {})


@pytest.mark.parametrize(
    ("there", "torch"), [("2.13.0+cu128", []), ("2.10.1", ["torch==2.15.*"]), ("2.16.0", ["torch==2.15.*"])]
)
def test_a_torch_that_works_is_kept(installed, monkeypatch, there, torch):
    """An older or a newer torch is replaced by a tested one, in the same pip command."""
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: there)
    run_install()
    [command] = installed
    assert command[:5] == [sys.executable, "-m", "pip", "install", "-q"]
    assert command[5:] == [*torch, f"nbcompile[notebook] @ git+{ADDRESS}@main"]


def test_without_torch_a_tested_one_is_installed(installed, monkeypatch):
    """On an image without torch, a tested version is installed."""
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: importlib.metadata.Distribution.from_name("no-such")
    )
    run_install()
    assert "torch==2.15.*" in installed[0]


def test_elsewhere_the_cell_does_nothing(installed):
    """On a laptop the cell does nothing."""
    run_install()
    assert installed == []


@pytest.mark.parametrize(
    ("address", "folder", "says"),
    [
        ("https://example.org/you/nbcompile", "a", "is not a repository on GitHub"),
        ("you/nbcompile", "a", "expected https://github.com/OWNER/NAME"),
        (ADDRESS, "/tmp/a", "is no folder in the repository"),
        (ADDRESS, "../a", "give a relative path"),
    ],
)
def test_what_colab_cannot_open_is_rejected(tmp_path, monkeypatch, capsys, address, folder, says):
    """The rejection is one sentence, and no file is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["teach", "colab", address, "-o", folder]) != 0
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
