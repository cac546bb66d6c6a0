"""Every peer program gives eager's results with generated code, and again when a later process loads what was kept.

In torch: test/inductor/test_codecache.py. Read next: tests/peer/program.py
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import nbcompile
from nbcompile import config
from tests.peer.harness import Ours, run, same_results, table
from tests.peer.known import KNOWN_HERE
from tests.peer.program import programs

pytestmark = [pytest.mark.slow, pytest.mark.peer]


class Generated(Ours):
    """nbcompile with its own backend, which alone is kept in the store."""

    name = "nbcompile, generated code"

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """The backend of the harness only counts graphs."""
        return nbcompile.compile(function, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store that lives as long as the module: kernels are shared by many programs."""
    with pytest.MonkeyPatch.context() as patch, config.patch(warm_start=True):
        patch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("name", programs())
def test_a_program_that_is_compiled_then_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process in miniature is a fresh copy of the program, with nothing compiled in memory."""
    # pytest listens to torch's structured trace, for which AOTAutograd prints fake tensors that cannot be printed
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    if reason := KNOWN_HERE.get((name, "results")):
        pytest.skip(reason)
    for phase in ("compiled", "loaded"):
        found = same_results(run(programs()[name], Generated()), name)
        assert not found, f"{phase}\n{table(found)}"
