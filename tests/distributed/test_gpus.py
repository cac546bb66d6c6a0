"""One process for each GPU: two ranks with two devices of the stand-in driver, and one store."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.distributed.test_ranks import pytestmark  # noqa: F401 - skipped without gloo

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
PROGRAM = Path(__file__).with_name("gpus.py")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU of its own")
def test_each_rank_launches_on_its_own_gpu(tmp_path):
    """Launches, recordings and parameters are on the device of LOCAL_RANK; both ranks train as in eager mode."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = subprocess.run(
        [*command, str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for rank, modes in enumerate(ranks):
        for found in modes.values():
            assert found["right"]
            assert found["devices"] == [str(rank)]
            assert found["lies on"] == [f"cuda:{rank}"]
            assert found["current"] == rank
        assert modes["None"]["replays"] == 0
        assert modes["reduce-overhead"]["replays"] > 0
    sums = [modes[mode]["sum"] for modes in ranks for mode in modes]
    assert max(sums) - min(sums) < 1e-4
