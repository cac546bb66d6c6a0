"""Slices of device meshes, and messages between ranks, in two pairs of processes with one store."""

import pytest

from nbcompile.record import model
from tests.distributed import meshes
from tests.distributed.test_ranks import pytestmark  # noqa: F401 - skipped without gloo


def test_there_are_no_more_graphs_than_torchs(first_pair, second_pair):
    """A mesh slice does not break the graph; a message does where it does in torch.compile."""
    for found in (*first_pair["meshes"], *second_pair["meshes"]):
        for name, ((ours, theirs), _) in found.items():
            assert ours == (theirs if name in meshes.MESSAGES else 1), name


@pytest.mark.fast_path
def test_a_second_pair_of_processes_loads_what_the_first_one_stored(second_pair):
    """Graphs with collectives, groups and meshes are stored; each rank loads its own."""
    for found in second_pair["meshes"]:
        for name, (_, causes) in found.items():
            assert causes, name
            assert {cause for cause in causes if cause != "resumed"} <= {model.LOADED}, name
