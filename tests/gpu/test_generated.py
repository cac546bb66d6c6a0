"""Random programs through the target sm_90: eager's results, no fault, and a kernel for all that has one."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from tests.gpu import generated

FOUND_ONCE = (17, 24, 52)
"""Seeds of programs that were wrong: pairs of bfloat16 that are compared, and of float16 that are rounded."""


@pytest.mark.parametrize("seed", [*FOUND_ONCE, *range(3, 8)])
def test_a_generated_program(seed):
    """The simulated code gives eager's values, and no operator with a kernel runs through ATen."""
    assert generated.differences(seed) == [], generated.program(seed).text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_200_generated_programs(seed):
    """200 more programs satisfy the same conditions (``make sweep``)."""
    assert generated.differences(seed) == [], generated.program(seed).text


def test_a_seed_is_one_program():
    """The text and the inputs depend only on the seed."""
    one, other = generated.program(5), generated.program(5)
    assert one.text == other.text
    assert all(mine.equal(theirs) for mine, theirs in zip(one.inputs, other.inputs, strict=True))
