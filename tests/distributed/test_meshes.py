"""Slices of meshes of devices and messages from rank to rank, in two pairs of processes that share a store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbcompile.record import model
from tests.distributed import meshes
from tests.distributed.test_ranks import pytestmark  # noqa: F401 - skipped without gloo

PROGRAM = Path(meshes.__file__)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """What the ranks of the first pair wrote, and those of the second; results were compared with eager's there."""
    store = tmp_path_factory.mktemp("store")
    found = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("ranks")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        environment = {**os.environ, "NBCOMPILE_CACHE_DIR": str(store)}
        ran = subprocess.run(
            [*command, str(PROGRAM), str(folder)], env=environment, capture_output=True, text=True, timeout=400
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        found.append([json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)])
    return found


def test_there_are_no_more_graphs_than_torchs(pairs):
    """A slice ends no graph; a message ends it where it does in torch.compile."""
    for found in (found for pair in pairs for found in pair):
        for name, ((ours, theirs), _) in found.items():
            assert ours == (theirs if name in meshes.MESSAGES else 1), name


def test_a_second_pair_of_processes_loads_what_the_first_one_stored(pairs):
    """Graphs with collectives, groups and meshes are stored; each rank loads those of its own rank."""
    for found in pairs[1]:
        for name, (_, causes) in found.items():
            assert causes, name
            assert {cause for cause in causes if cause != "resumed"} <= {model.LOADED}, name
