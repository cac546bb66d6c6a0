"""Two pairs of processes over gloo on loopback, started by torchrun as a user starts them, for all tests of this folder."""

import pytest

from tests.distributed.launch import launched


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The compile cache that both pairs have, whichever test asks for them first (each test has frames of its own)."""
    folder = tmp_path_factory.mktemp("store")
    return {"NBCOMPILE_CACHE_DIR": str(folder), "NBCOMPILE_FRAMES_DIR": str(folder / "frames")}


@pytest.fixture(scope="session")
def first_pair(tmp_path_factory, store):
    """By program what each rank of the first pair found; both share the store."""
    return launched(tmp_path_factory.mktemp("first"), "meshes", "captured", "ranks", **store)


@pytest.fixture(scope="session")
def second_pair(tmp_path_factory, store, first_pair):
    """The same of the second pair, after the first."""
    return launched(tmp_path_factory.mktemp("second"), "meshes", **store)


@pytest.fixture
def ranks(first_pair):
    """What each rank found by training."""
    return first_pair["ranks"]
