"""The plugin with a separate store for each test (tests/stores.py), run as pytest runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest
import torch

import nbcompile


def compiled():
    nbcompile.reset()
    return nbcompile.compile(lambda x: x + 1)(torch.ones(2))


def test_left():
    assert compiled().tolist() == [2, 2]


@pytest.mark.compiles
def test_marked():
    compiled()


def test_without():
    pass
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[str, str, str]:
    """The output of a run that compiles, one that loads, and one that loads nothing."""
    folder = tmp_path_factory.mktemp("plugin")
    file = folder / "test_file.py"
    file.write_text(TESTS)
    first, second = run(folder), run(folder, "--load")
    file.write_text(TESTS.replace("x + 1", "1 + x"))
    return first, second, run(folder, "--load")


def run(folder: Path, *options: str) -> str:
    """The end of pytest's output, with its exit status."""
    plugins = ["-p", "no:cacheprovider", "-p", "tests.stores", "-c", os.devnull, "--rootdir", folder]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--store", folder / "stores", *options, folder]
    where = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NBCOMPILE_WARM_START": "1"}
    done = subprocess.run(command, env=os.environ | where, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}\nexit status {done.returncode}"


@pytest.mark.fast_path
def test_the_first_run_compiles_what_the_second_loads(runs):
    """Equal functions in two tests are compiled twice, because each test has a separate store."""
    assert "3 tests: 0 loads, 2 lookups without an entry" in runs[0]
    assert "exit status 0" in runs[0]
    assert "1 tests: 1 loads, 0 lookups without an entry" in runs[1]
    assert "exit status 0" in runs[1]


@pytest.mark.fast_path
def test_the_second_run_leaves_out_what_asserts_a_compile_and_what_left_nothing(runs):
    """One of three tests runs again."""
    assert "1 passed, 2 deselected" in runs[1]


@pytest.mark.fast_path
def test_a_second_run_that_loads_nothing_fails(runs):
    """A second run that compiles and loads nothing fails, though its tests pass."""
    assert "1 passed, 2 deselected" in runs[2]
    assert "1 tests: 0 loads, 1 lookups without an entry" in runs[2]
    assert "nothing loaded: test_file.py::test_left (no entry of this key)" in runs[2]
    assert "too few loads" in runs[2]
    assert "exit status 1" in runs[2]


def test_the_store_is_on_and_this_tests_own(request):
    """The store is on in this test, as in all, unless the whole run switched it off."""
    folder = os.environ["NBCOMPILE_FRAMES_DIR"]
    assert Path(folder).parent == Path(request.config.option.store)
