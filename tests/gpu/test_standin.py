"""Graphs on ``cuda:0``, launched through the stand-in driver: the tests of tests/gpu/standin, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests/gpu/standin").glob("test_*.py"))


@pytest.mark.skipif(torch.version.cuda is not None, reason="the stand-in device needs a torch without CUDA")
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_all_of_a_file_holds_on_the_stand_in_device(file):
    """Each test of the file passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    environment = {**os.environ, "NBCOMPILE_STANDIN": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
