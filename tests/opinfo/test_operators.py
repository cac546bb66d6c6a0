"""torch's operator database, compiled: results and gradients as eager's.

The gate takes every operator's first sample through AOTAutograd, and a fixed part of them
through generated code; ``make sweep`` takes all of them through generated code.
"""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.opinfo import harness
from tests.opinfo.known import KNOWN

NAMES = [name for name in harness.database() if name not in KNOWN]
FLOATS = ["float32", "float64", "bfloat16"]


def passes(name: str, dtype: str, backend: str, backward: bool = False, samples: int = 1) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile_it = harness.compiler("nbcompile", backend)
        found = harness.outcome(harness.database()[name], getattr(torch, dtype), backward, compile_it, samples)
    assert found.status in ("passed", "no sample"), found.detail


@pytest.mark.parametrize("name", NAMES[::12])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_generated_code(name, backward):
    """Every twelfth operator, float32."""
    passes(name, "float32", "inductor", backward)


@pytest.mark.parametrize("name", NAMES[5::12])
def test_through_aot_autograd(name):
    """Every twelfth operator, another one, as functional ATen."""
    passes(name, "float32", "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", [*FLOATS, "int64", "bool", "backward"])
def test_everything(name, how):
    """All operators and dtypes, through generated code."""
    passes(name, "float32" if how == "backward" else how, "inductor", how == "backward", samples=3)
