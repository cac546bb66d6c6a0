"""Entries that one process stored and another one loads after a change: whole programs give eager mode's results."""

import re
import sys

import pytest

from tests.peer.program import programs
from tests.support.processes import command

FAMILIES = sorted({each.family for each in programs().values()})


def matrix(*arguments, seconds):
    """The counts of the matrix by name, from a separate process that forks before anything is compiled."""
    done = command(sys.executable, "-m", "tests.fast.disk_cache.matrix", *arguments, seconds=seconds)
    print(done.stdout)
    return {what: int(count.replace(",", "")) for count, what in re.findall(r"^ *([\d,]+) (.+)$", done.stdout, re.M)}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store for the test, which is on by default as for users."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    monkeypatch.delenv("NBCOMPILE_WARM_START", raising=False)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("store")
def test_a_sample_of_all_pairs():
    """Entries of some programs and changes are loaded, and every result is eager mode's."""
    counts = matrix("--programs", "7/276", "--share", "1/8", seconds=900)
    assert counts["pairs"] > 30
    assert counts["pairs_that_load"] > counts["pairs"] / 5


@pytest.mark.slow
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("family", FAMILIES)
def test_all_pairs(family):
    """Every program with every change gives eager mode's results."""
    counts = matrix(family, seconds=7200)
    assert counts["pairs_that_load"]
