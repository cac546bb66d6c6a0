"""torch's operator database, compiled: results and gradients as eager's.

    pytest tests/opinfo                  half of every twelfth operator, by the source; another twelfth through AOTAutograd only
    make sweep TESTS=tests/opinfo        all operators, dtypes and gradients

In torch: test/inductor/test_torchinductor_opinfo.py. Read next: tests/opinfo/harness.py
"""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.opinfo import harness, results
from tests.opinfo.known import KNOWN

NAMES = list(harness.database())
ALL_SAMPLES = 3
"""As many as a recorded sweep takes; a sample alone may pass where another does not."""


@pytest.fixture
def passes(record_property, request):
    """``passes(name, "float32 backward")`` runs the harness for an operator; known failures are xfailed."""

    def check(name: str, sweep: str, backend: str = "inductor", samples: int = 1) -> None:
        dtype, direction = sweep.split()
        record_property("sweep", f"{sweep}{'' if backend == 'inductor' else f' ({backend})'}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile_it = harness.compiler("nbcompile", backend, **harness.WHOLE)
            info, backward = harness.database()[name], direction == "backward"
            found = harness.outcome(info, getattr(torch, dtype), backward, compile_it, samples)
        if found.status == results.NO_SAMPLE:
            pytest.skip("no sample")
        why = KNOWN[sweep].get(name)
        if found.status != results.PASSED and why:
            pytest.xfail(why)
        assert found.status == results.PASSED, found.detail
        assert not why or samples < ALL_SAMPLES, f"{name} passes in {sweep}: it is to be struck off known.py"

    return check


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES[::12])
@pytest.mark.parametrize("sweep", results.SWEEPS[:2])
def test_generated_code(name, sweep, passes):
    """Every twelfth operator, in float32, equals eager mode."""
    passes(name, sweep)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES[5::12])
def test_through_aot_autograd(name, passes):
    """Every twelfth operator, other ones, equals eager mode through AOTAutograd."""
    passes(name, "float32 forward", "aot_eager")


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES[9::36])
@pytest.mark.parametrize("sweep", results.SWEEPS[2:])
def test_other_dtypes(name, sweep, passes):
    """Every thirty-sixth operator equals eager mode in doubles, halves, integers and bools."""
    passes(name, sweep)


@pytest.mark.slow
@pytest.mark.parametrize("sweep", results.SWEEPS)
@pytest.mark.parametrize("name", NAMES)
def test_everything(name, sweep, passes):
    """All operators equal eager mode in all dtypes, with generated code."""
    passes(name, sweep, samples=ALL_SAMPLES)


@pytest.mark.parametrize("sweep", results.SWEEPS)
def test_as_many_pass_as_with_torch_compile(sweep):
    """As many operators pass as with torch.compile, by dtype; each other one is known, with a reason."""
    table = results.load()
    ours, theirs = (table[f"{compiler} {sweep}"] for compiler in (results.OURS, results.PEER))
    assert set(ours["failed"]) == set(KNOWN[sweep])
    assert results.passes(ours) >= results.passes(theirs)


def test_the_page_shows_what_is_recorded():
    """docs/operators.md is the output of ``python -m tests.opinfo.results``."""
    assert results.page() == results.PAGE.read_text()
