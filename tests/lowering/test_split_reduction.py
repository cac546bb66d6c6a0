"""Reductions in two steps, for a GPU that would be idle otherwise."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.ir.buffer import Reduction
from nbcompile.ir.index import indices
from nbcompile.lowering import lower, split_reduction
from tests.lowering.programs import traced

GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("results", "reduced", "kind", "along_columns", "expected"),
    [
        ((), (1 << 20,), "sum", False, 512),
        ((), (1 << 14,), "sum", False, 1),
        ((32,), (32000,), "max", False, 10),
        ((512,), (1 << 20,), "sum", False, 1),
        ((256,), (4096,), "sum", True, 256),
        ((1 << 16,), (4096,), "sum", True, 1),
        ((256,), (127,), "sum", True, 1),
        ((), (1 << 20,), "argmax", False, 1),
        ((), (1_000_003,), "sum", False, 1),
    ],
)
def test_how_many_parts(results, reduced, kind, along_columns, expected):
    """As many as fill a GPU; none where programs are many, where parts would be short, or where places matter."""
    found = split_reduction.split_count(indices(results), indices(reduced), kind, along_columns=along_columns)
    assert found == expected


def reductions(function, *inputs, device=GPU, **how):
    program = lower(traced(function, *inputs, **how), inputs, device=device)
    return [each for each in program.buffers if isinstance(each, Reduction)]


def test_a_cpu_reduces_as_a_whole():
    """Its threads share the loop."""
    x = torch.randn(1 << 16)
    assert len(reductions(lambda x: x.sum(), x, device=None)) == 1
    assert len(reductions(lambda x: x.sum(), x)) == 2


def test_a_length_that_only_a_call_knows_is_reduced_as_a_whole():
    """How many parts it should have is known only then."""
    assert len(reductions(lambda x: x.sum(), torch.randn(1 << 16), dynamic=True)) == 1


PROGRAMS = {
    "all of it": lambda x: x.sum(),
    "with its dimensions": lambda x: x.sum((0, 1, 2), keepdim=True),
    "columns": lambda x: x.amax((0, 1)),
    "columns, kept": lambda x: x.sum((0, 1), keepdim=True),
    "columns of a view": lambda x: (x.permute(2, 1, 0) * 2).sum((1, 2)),
    "half precision": lambda x: x.bfloat16().sum(),
    "truth values": lambda x: ((x > 4).any(), (x > -9).all()),
    "a product": lambda x: (1 + x / 1e4).prod(),
    "a mean and its use": lambda x: x - x.mean(),
    "integers": lambda x: (x * 10).to(torch.int32).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_give_eagers_result(name):
    """The compiled code for a GPU, simulated."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    torch.manual_seed(0)
    x = torch.randn(32, 64, 96)
    function = PROGRAMS[name]
    found = nbcompile.compile(function, options={"target": "sm_90"})(x)
    torch.testing.assert_close(found, function(x), rtol=1e-3 if name == "half precision" else 1e-4, atol=1e-2)
    assert len(reductions(function, x)) >= 2
