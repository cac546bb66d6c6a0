"""Nothing that a user does from Python ends the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("survive.py")


def survives(seconds: int, *names: str) -> None:
    """Run the programs in a process where memory that was freed is overwritten."""
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(PROGRAMS), str(seconds), *names]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=270 + 3 * seconds, check=False
    )
    assert ran.returncode == 0 and ran.stdout.endswith("all is well\n"), ran.stdout[-2000:] + ran.stderr[-6000:]


def test_resets_deaths_and_recursion_at_the_wrong_moment():
    """Reset in guards, hooks, destructors, backends and other threads; code that dies or changes while it runs."""
    survives(3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_threads_that_call_and_reset_for_minutes():
    """Eight threads compile, call, reset and collect for two minutes, and one resets what four call."""
    survives(120, "many_threads", "one_function_called_and_reset")
