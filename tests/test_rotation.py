"""A run does a part of a family of slow tests, and `make sweep` does the rest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import rotation, timing

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

SLOW = """
@pytest.mark.parametrize("case", range(20))
def test_slow(case):
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
    root = Path(__file__).parents[1]
    surroundings = {**os.environ, "PYTHONPATH": f"{root}:{path}"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=surroundings)
    return {line.rpartition("::")[2] for line in ran.stdout.splitlines() if "::" in line}


def test_each_case_is_run_by_the_suite_or_by_the_sweep(tmp_path):
    """About a third of the cases is not slow; a test without the mark is never slow."""
    (tmp_path / "test_family.py").write_text(FAMILY)
    usual, rest = run(tmp_path, "-m", "not slow"), run(tmp_path, "-m", "slow")
    assert "test_always" in usual
    assert len(usual | rest) == 31 + 30
    assert not usual & rest
    assert 3 < len([name for name in usual if name.startswith("test_number")]) < 20


def test_cases_with_one_argument_stay_together(tmp_path):
    """Cases with the same argument are in one part, so that an expensive program runs once."""
    (tmp_path / "test_family.py").write_text(FAMILY)
    usual = {name for name in run(tmp_path, "-m", "not slow") if name.startswith("test_aspect")}
    names = [re.search(r"n\d", name)[0] for name in usual]
    assert 0 < len(set(names)) < 10 and {names.count(name) for name in names} == {3}


def test_every_part_has_its_turn(tmp_path):
    """The part depends on the source, and over some changes each part is run."""
    turns = set()
    for size in range(30):
        (tmp_path / "module.py").write_text("#" * size)
        assert rotation.turn(tmp_path) == rotation.turn(tmp_path)
        turns.add(rotation.turn(tmp_path) % 3)
    assert turns == {0, 1, 2}


def test_slow_tests_of_the_table_rotate(tmp_path):
    """A measured slow test function rotates like a marked one; a mark takes precedence."""
    (tmp_path / "test_family.py").write_text(FAMILY + SLOW)
    table = tmp_path / "slow.txt"
    table.write_text("# measured\n2 test_family.py::test_slow\n2 test_family.py::test_number\n")
    (tmp_path / "table.py").write_text(
        f"from pathlib import Path\nfrom tests import rotation\nrotation.SLOW_TESTS = Path({str(table)!r})\n"
    )
    with_table = "-p", "table", f"--rootdir={tmp_path}"
    usual, rest = run(tmp_path, "-m", "not slow", *with_table), run(tmp_path, "-m", "slow", *with_table)
    found = {name for name in usual if name.startswith("test_slow")}
    assert 0 < len(found) < 20
    assert len([name for name in rest if name.startswith("test_slow")]) == 20 - len(found)
    assert {name for name in usual if name.startswith("test_number")} == {
        name for name in run(tmp_path, "-m", "not slow") if "number" in name
    }


def test_the_table_names_tests_that_are_there():
    """Each row of the table names an existing test."""
    for name, parts in rotation.slow_tests().items():
        path, _, function = name.partition("::")
        file = rotation.SLOW_TESTS.parents[1] / path
        assert parts in {parts for _, parts in timing.PARTS}
        assert file.exists() and f"def {function.rpartition('::')[2]}(" in file.read_text(), name


def test_slow_tests_are_those_whose_cases_take_long_together():
    """The times of a function's cases are added up; a slower function has more parts."""
    lines = ["2.5\ta.py::test_a[1]", "2.5\ta.py::test_a[2]", "3.9\ta.py::test_b", "30\ta.py::test_c[x::y]"]
    found = [
        (parts, name) for parts, _, name in timing.slow_tests(iter([*lines, "30\ttests/test_house.py::test_sizes"]))
    ]
    assert found == [(3, "a.py::test_c"), (2, "a.py::test_a")]


def test_times_of_tests_are_appended_to_a_file(tmp_path):
    """The file has a line with processor seconds and name for each test."""
    (tmp_path / "test_family.py").write_text(
        "def test_busy():\n    sum(range(3_000_000))\n\ndef test_idle():\n    pass\n"
    )
    times = tmp_path / "times.tsv"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "-p",
        "tests.timing",
        "--times",
        str(times),
        str(tmp_path),
    ]
    subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[1])
    rows = dict(reversed(line.split("\t")) for line in times.read_text().splitlines())
    busy, idle = (float(next(time for name, time in rows.items() if name.endswith(end))) for end in ("busy", "idle"))
    assert idle < busy
