"""Machine code is printed by NVIDIA's disassembler where a test looks at it, and nowhere else."""

from __future__ import annotations

import importlib.util
import os

import pytest

PRINTED = "prints_machine_code"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{PRINTED}: SASS is printed: half a second of a processor for each kernel")


@pytest.fixture(autouse=True)
def machine_code_is_not_printed(request: pytest.FixtureRequest) -> None:
    """A record has no SASS then; registers, spills and shared memory are read in the machine code all the same."""
    # The tests of the folder standin run where nothing may import Triton.
    if request.node.get_closest_marker(PRINTED) or os.environ.get("NBCOMPILE_STANDIN"):
        return
    if importlib.util.find_spec("triton") is not None:
        from nbcompile.gpu import sass

        request.getfixturevalue("monkeypatch").setattr(sass, "lines", lambda built: {})
