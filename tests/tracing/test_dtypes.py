"""Where eager refuses a combination of dtypes, the compiled function raises the same; where not, it computes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile import config

ONE, TWO = torch.ones(3, 3), torch.ones(3, 3, dtype=torch.float64)
PROGRAMS = {
    "two dtypes": lambda a, b: a @ b,
    "mm": torch.mm,
    "mv": lambda a, b: a.mv(b[0]),
    "linear": F.linear,
    "bias": lambda a, b: F.linear(a, a, b[0]),
    "addmm": lambda a, b: torch.addmm(b, a, a),
    "converted": lambda a, b: a.double() @ b,
    "int32 classes": lambda a, b: F.cross_entropy(a, b[0].int()),
    "int64 classes": lambda a, b: F.cross_entropy(a, b[0].long()),
    "probabilities": lambda a, b: F.cross_entropy(a, b.float()),
}


def outcome(function):
    with config.patch(suppress_errors=True):
        try:
            return function(ONE, TWO)
        except RuntimeError as error:
            return str(error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_refusal_is_eagers(name):
    """Text for text, value for value."""
    nbcompile.reset()
    wanted, got = outcome(PROGRAMS[name]), outcome(nbcompile.compile(PROGRAMS[name], backend="eager"))
    assert type(wanted) is type(got)
    assert wanted == got if isinstance(wanted, str) else torch.equal(wanted, got)


def test_autocast_converts_first():
    """A product of two dtypes is none there."""
    nbcompile.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = nbcompile.compile(lambda a, b: F.linear(a, b), backend="eager", fullgraph=True)
        assert torch.equal(compiled(ONE, ONE.bfloat16()), F.linear(ONE, ONE.bfloat16()))
