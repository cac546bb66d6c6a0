"""The SASS of kernels is printed by NVIDIA's disassembler only for tests that read it."""

from __future__ import annotations

import importlib.util
import os

import pytest

PRINTED = "prints_machine_code"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{PRINTED}: SASS is printed: half a second of a processor for each kernel")


@pytest.fixture(autouse=True)
def machine_code_is_not_printed(request: pytest.FixtureRequest) -> None:
    """The record has no SASS in other tests; registers, spills and shared memory are read from the machine code."""
    # The tests in the folder standin must not import Triton.
    if request.node.get_closest_marker(PRINTED) or os.environ.get("NBCOMPILE_STANDIN"):
        return
    if importlib.util.find_spec("triton") is not None:
        from nbcompile.gpu import sass

        request.getfixturevalue("monkeypatch").setattr(sass, "lines", lambda built: {})
