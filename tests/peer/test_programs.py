"""Every peer program behaves as in eager, and is compiled as torch.compile compiles it.

The oracle runs live, once per program and process. Disagreements that are known
stand in known.py, with a reason each. The names are of the module's scope, so that pytest puts all tests of a program
together: processes that share the tests observe few programs twice. `make test` runs half of the programs, by the source of the
package; `pytest -m peer tests/peer` runs all.
"""

from __future__ import annotations

import pytest
import torch

from tests.peer.harness import ASPECTS, differences, observed, refused, same_results, table
from tests.peer.known import KNOWN_HERE
from tests.peer.program import programs

pytestmark = pytest.mark.peer

ORACLE = "2.13"
"""The torch whose compiler is the oracle; others trace other graphs. Results are eager's with each."""
other_torch = not torch.__version__.startswith(ORACLE)


@pytest.mark.skipif(other_torch, reason=f"the oracle is torch {ORACLE}")
@pytest.mark.rotates(2, by="name")
@pytest.mark.parametrize("name", programs(), scope="module")
def test_torch_compile_gives_eagers_results(name: str) -> None:
    """The oracle is sound: torch.compile's results are eager's, but for the programs that say why not."""
    found = same_results(observed(name, "torch.compile"), name)
    expected = programs()[name].settings.torch_differs
    assert bool(found) == bool(expected), f"said: {expected or '(no difference)'}\n" + table(found, "eager")


@pytest.mark.rotates(2, by="name")
@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("name", programs(), scope="module")
def test_nbcompile_agrees(name: str, aspect: str, request: pytest.FixtureRequest) -> None:
    """nbcompile agrees with eager on results, and with torch.compile on graphs, their details and the reasons given."""
    if other_torch and (aspect != "results" or refused(name)):
        pytest.skip(f"the oracle is torch {ORACLE}")
    if reason := KNOWN_HERE.get((name, aspect)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    found = differences(name, aspect)
    assert not found, f"\n{table(found)}\n\nsee: python -m tests.peer.harness {name}"


def test_known_disagreements_are_about_programs_that_exist() -> None:
    """The table of known disagreements names real programs and aspects only."""
    assert {name for name, _ in KNOWN_HERE} <= set(programs())
    assert {aspect for _, aspect in KNOWN_HERE} <= set(ASPECTS)
