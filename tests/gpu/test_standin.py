"""The tests of tests/gpu/standin, graphs on ``cuda:0`` through the stand-in driver, in separate processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.processes import command

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/gpu/standin"
# Each process imports all modules and compiles the first kernels: files can share these seconds.
PROCESSES = {
    "launches": ("launches", "driver", "driver_results", "product_tuning", "descriptors", "device", "execution"),
    "recordings": ("recording", "graph_memory", "faults", "user_kernels"),
    "threads": ("threads", "process_group", "replaced_kernels"),
    "attention": ("attention", "flex_attention", "written_kernels"),
}
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU")


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The tests of some files, in a process with the stand-in device."""
    files = [str(FOLDER / f"test_{file}.py") for file in PROCESSES[name]]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, *files]
    variables = {"NBCOMPILE_STANDIN": "1", "PYTEST_XDIST_WORKER": None}
    return command(sys.executable, *words, folder=ROOT, status=None, **variables)


def test_every_file_is_in_a_process():
    """Each test file runs in one of the processes."""
    assert sorted(f"test_{file}.py" for files in PROCESSES.values() for file in files) == sorted(
        path.name for path in FOLDER.glob("test_*.py")
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PROCESSES)
def test_all_of_its_files_hold_on_the_stand_in_device(name):
    """Each test passes in its process."""
    ran = run(name)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PROCESSES)
def test_the_cases_that_rotate_hold_on_the_stand_in_device(name):
    """The rotated cases that the quick run leaves out pass, too."""
    ran = run(name, "-m", "slow")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
