"""Memory is flat, however often a program compiles, and what a call was given is freed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("memory.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]


def measured(*arguments: str, seconds: int = 3500):
    """What the program prints."""
    environment = {**os.environ, "NBCOMPILE_WARM_START": "0"}
    command = [sys.executable, str(PROGRAM), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_what_a_call_was_given_is_freed():
    """Inputs, results and the function: after a call, an exception and a reset, with and without gradients."""
    measured("inputs", "0")


@pytest.mark.parametrize(
    "program", ["compile_and_reset", "run_a_cell_again", "call_with_another_shape", "train", "fail"]
)
def test_a_cycle_leaves_nothing(program):
    """After a warm-up the number of objects does not grow with the number of cycles."""
    found = measured(program, "40")
    assert found["objects"] < 1, found


@pytest.mark.parametrize(
    "program, cycles",
    [
        ("compile_and_reset", 2000),
        ("run_a_cell_again", 1000),
        ("call_with_another_shape", 10_000),
        ("train", 500),
        ("fail", 500),
    ],
)
def test_thousands_of_cycles(program, cycles):
    """Neither objects nor resident memory grow: by less than a fifth of what there is after the warm-up."""
    found = measured(program, str(cycles), seconds=3500)
    assert found["objects"] < 0.1, found
    assert found["kilobytes"] * cycles < found["before"] / 5, found
