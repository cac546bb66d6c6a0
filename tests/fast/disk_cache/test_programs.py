"""Every peer program gives eager mode's results with generated code, compiled and loaded.

In torch: test/inductor/test_codecache.py. Read next: tests/peer/program.py
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import nbcompile
from nbcompile import config
from tests.fast.disk_cache.matrix import visible
from tests.peer.harness import Difference, Ours, run, same_results, table
from tests.peer.known import KNOWN_HERE
from tests.peer.program import programs

NO_INFERENCE_TENSORS = "results of an inference_mode region are no inference tensors through AOTAutograd, as in torch"
NO_VARIANCE = "equal rows have a variance of 0, or of a rounding error, by which a norm divides"
KNOWN = {
    **dict.fromkeys(
        ("inference_mode_region", "inference_mode_in_every_shape", "inference_mode_inside", "grad_mode_decorators"),
        NO_INFERENCE_TENSORS,
    ),
    **dict.fromkeys(("apply_and_buffers", "batch_norm_in_training_of_symbols"), NO_VARIANCE),
    "data_of_an_input_is_set": "AOTAutograd writes the new data into the input, which counts one version more",
    "detached_in_every_way": "outputs that are one another detached are one object after AOTAutograd",
}
"""Known differences of generated code from eager mode; this should be empty."""

pytestmark = [pytest.mark.slow, pytest.mark.peer]


class Generated(Ours):
    """nbcompile with its own backend, the only one whose code is stored."""

    name = "nbcompile, generated code"

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Compile with the default backend: the backend of the harness only counts graphs."""
        return nbcompile.compile(function, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store for the whole module, because many programs share kernels."""
    with pytest.MonkeyPatch.context() as patch, config.patch(warm_start=True):
        patch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
        yield


def _marked(name: str) -> Any:
    known = [pytest.mark.xfail(reason=KNOWN[name], strict=True)] if name in KNOWN else []
    return pytest.param(name, marks=known)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("name", list(map(_marked, programs())))
def test_a_program_that_is_compiled_then_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new copy of the program, with nothing compiled in memory, simulates the later process."""
    # pytest listens to torch's structured trace, for which AOTAutograd prints fake tensors that cannot be printed
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    if reason := KNOWN_HERE.get((name, "results")):
        pytest.skip(reason)
    for phase in ("compiled", "loaded"):
        found = same_results(run(programs()[name], Generated()), name)
        wrong = [each for each in found if not _rounded(each)]
        assert not wrong, f"{phase}\n{table(wrong)}"


NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")
LAYOUT = re.compile(r"(\([\d, ]*\)) strides (\([\d, ]*\))(?: offset \d+)?")


def _rounded(difference: Difference) -> bool:
    """True if only last digits of floats differ, which depend on the order of additions, or invisible strides."""
    ours, theirs = (LAYOUT.sub(visible, each) for each in (difference.ours, difference.theirs))
    pairs = zip(map(float, NUMBER.findall(ours)), map(float, NUMBER.findall(theirs)), strict=False)
    same_text = NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    return same_text and all(math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) for one, other in pairs)
