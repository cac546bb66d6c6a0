"""Each peer program has eager mode's results, and is compiled as torch.compile compiles it.

The oracle runs in each test process, once per program. Known disagreements are in known.py, each with its reason.
The parameter has module scope, so that pytest groups the tests of a program: if several processes share the tests,
few programs run twice. `make test` runs half of the programs, chosen by names and sizes of the package's files;
`pytest -m peer tests/peer` runs all programs.
"""

from __future__ import annotations

import pytest
import torch

from tests.peer.harness import ASPECTS, differences, observed, rejected, same_results, table
from tests.peer.known import KNOWN_HERE
from tests.peer.program import programs

pytestmark = pytest.mark.peer

ORACLE = "2.13"
"""The version of torch that is the oracle; other versions trace other graphs. Results are checked with each version."""
other_torch = not torch.__version__.startswith(ORACLE)


@pytest.mark.skipif(other_torch, reason=f"the oracle is torch {ORACLE}")
@pytest.mark.rotates(2, by="name")
@pytest.mark.parametrize("name", programs(), scope="module")
def test_torch_compile_gives_eagers_results(name: str) -> None:
    """The oracle is right: torch.compile's results are eager mode's, except for programs with a stated reason."""
    found = same_results(observed(name, "torch.compile"), name)
    expected = programs()[name].settings.torch_differs
    assert bool(found) == bool(expected), f"said: {expected or '(no difference)'}\n" + table(found, "eager")


@pytest.mark.rotates(2, by="name")
@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("name", programs(), scope="module")
def test_nbcompile_agrees(name: str, aspect: str, request: pytest.FixtureRequest) -> None:
    """nbcompile agrees with eager mode in results, and with torch.compile in graphs, their details and reasons."""
    if other_torch and (aspect != "results" or rejected(name)):
        pytest.skip(f"the oracle is torch {ORACLE}")
    if reason := KNOWN_HERE.get((name, aspect)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    found = differences(name, aspect)
    assert not found, f"\n{table(found)}\n\nsee: python -m tests.peer.harness {name}"


def test_known_disagreements_are_about_programs_that_exist() -> None:
    """The table of known disagreements contains only existing programs and aspects."""
    assert {name for name, _ in KNOWN_HERE} <= set(programs())
    assert {aspect for _, aspect in KNOWN_HERE} <= set(ASPECTS)
