"""Of a family of slow tests a part is run, and the rest by `make sweep`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests import rotation

FAMILY = """
import pytest

@pytest.mark.rotates(3)
@pytest.mark.parametrize("number", range(30))
def test_number(number):
    pass

@pytest.mark.rotates(2, by="name")
@pytest.mark.parametrize("aspect", range(3))
@pytest.mark.parametrize("name", [f"n{number}" for number in range(10)])
def test_aspect(name, aspect):
    pass

def test_always():
    pass
"""


def run(path: Path, *arguments: str) -> set[str]:
    plugins = ["-p", "tests.rotation", "-p", "no:cacheprovider", "--import-mode=importlib"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-c",
        "/dev/null",
        *plugins,
        *arguments,
        str(path),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    return {line.rpartition("::")[2] for line in ran.stdout.splitlines() if "::" in line}


def test_each_case_is_run_by_the_suite_or_by_the_sweep(tmp_path):
    """About a third is not slow, the others are, and a test without the mark is none of them."""
    (tmp_path / "test_family.py").write_text(FAMILY)
    usual, rest = run(tmp_path, "-m", "not slow"), run(tmp_path, "-m", "slow")
    assert "test_always" in usual
    assert len(usual | rest) == 31 + 30
    assert not usual & rest
    assert 3 < len([name for name in usual if name.startswith("test_number")]) < 20


def test_cases_with_one_argument_stay_together(tmp_path):
    """What is expensive for a program is then done for half of the programs, and not for half of each."""
    (tmp_path / "test_family.py").write_text(FAMILY)
    usual = {name for name in run(tmp_path, "-m", "not slow") if name.startswith("test_aspect")}
    names = [re.search(r"n\d", name)[0] for name in usual]
    assert 0 < len(set(names)) < 10 and {names.count(name) for name in names} == {3}


def test_every_part_has_its_turn(tmp_path):
    """What is run depends on the source, and over some changes of it each part is run."""
    turns = set()
    for size in range(30):
        (tmp_path / "module.py").write_text("#" * size)
        assert rotation.turn(tmp_path) == rotation.turn(tmp_path)
        turns.add(rotation.turn(tmp_path) % 3)
    assert turns == {0, 1, 2}
