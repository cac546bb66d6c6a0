"""Graphs on ``cuda:0``, launched through the stand-in driver: the tests of tests/gpu/standin, in a process of their own."""

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
# Each process imports everything anew and compiles the same first kernels: a few seconds that files can share.
PROCESSES = {
    "launches": ("launches", "driver", "driver_results", "product_tuning", "descriptors", "device", "execution"),
    "recordings": ("recording", "graph_memory", "faults", "user_kernels"),
    "threads": ("threads", "process_group", "replaced_kernels"),
    "attention": ("attention", "flex_attention", "written_kernels"),
}
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU")


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The tests of some files, in a process that has the stand-in device."""
    files = [str(FOLDER / f"test_{file}.py") for file in PROCESSES[name]]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, *files]
    variables = {"NBCOMPILE_STANDIN": "1", "PYTEST_XDIST_WORKER": None}
    return command(sys.executable, *words, folder=ROOT, status=None, **variables)


def test_every_file_is_in_a_process():
    """A new file is not forgotten."""
    assert sorted(f"test_{file}.py" for files in PROCESSES.values() for file in files) == sorted(
        path.name for path in FOLDER.glob("test_*.py")
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PROCESSES)
def test_all_of_its_files_hold_on_the_stand_in_device(name):
    """Each test passes."""
    ran = run(name)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PROCESSES)
def test_the_cases_that_rotate_hold_on_the_stand_in_device(name):
    """Those that this source of the package leaves out above."""
    ran = run(name, "-m", "slow")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
