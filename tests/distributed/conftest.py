"""Two pairs of processes over gloo on loopback, started by torchrun as a user starts them, for all tests of this folder."""

import pytest

from tests.distributed.launch import launched


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The compile cache of both pairs, whichever test runs first (each test has separate frames)."""
    folder = tmp_path_factory.mktemp("store")
    return {"NBCOMPILE_CACHE_DIR": str(folder), "NBCOMPILE_FRAMES_DIR": str(folder / "frames")}


@pytest.fixture(scope="session")
def first_pair(tmp_path_factory, store):
    """The results of the first pair, by program and rank; both ranks share the store."""
    return launched(tmp_path_factory.mktemp("first"), "meshes", "captured", "ranks", **store)


@pytest.fixture(scope="session")
def second_pair(tmp_path_factory, store, first_pair):
    """The results of the second pair, which runs after the first one."""
    return launched(tmp_path_factory.mktemp("second"), "meshes", **store)


@pytest.fixture
def ranks(first_pair):
    """The results of training, by rank."""
    return first_pair["ranks"]
