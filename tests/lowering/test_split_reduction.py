"""Split reductions, for a GPU that would be idle otherwise."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import nbcompile
from nbcompile.ir.buffer import Reduction
from nbcompile.ir.index import indices
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import loads
from nbcompile.lowering import lower, split_reduction
from nbcompile.scheduling import schedule
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("results", "reduced", "kind", "along_columns", "expected"),
    [
        ((), (1 << 20,), "sum", False, 512),
        ((), (1 << 14,), "sum", False, 1),
        ((32,), (32000,), "max", False, 10),
        ((512,), (1 << 20,), "sum", False, 1),
        ((256,), (4096,), "sum", True, 64),
        ((1 << 16,), (4096,), "sum", True, 1),
        ((256,), (127,), "sum", True, 1),
        ((), (1 << 20,), "argmax", False, 512),
        ((), (1_000_003,), "sum", False, 481),
        ((4,), (50257,), "max", False, 24),
    ],
)
def test_how_many_parts(results, reduced, kind, along_columns, expected):
    """A reduction has as many parts as fill a GPU, also of a prime length; none with many programs, or short parts."""
    found = split_reduction.split_count(indices(results), indices(reduced), kind, along_columns=along_columns)
    assert found == expected


def reductions(function, *inputs, device=GPU, **how):
    program = lower(traced(function, *inputs, **how), device=device)
    return [each for each in program.buffers if isinstance(each, Reduction)]


def test_a_cpu_reduces_as_a_whole():
    """A CPU does not split: its threads share the loop."""
    x = torch.randn(1 << 16)
    assert len(reductions(lambda x: x.sum(), x, device=None)) == 1
    assert len(reductions(lambda x: x.sum(), x)) == 2


def test_a_length_that_only_a_call_knows_is_reduced_as_a_whole():
    """A reduction of symbolic length is not split: the number of parts is unknown."""
    assert len(reductions(lambda x: x.sum(), torch.randn(1 << 16), dynamic=True)) == 1


TIED = (1.0, float("nan"), float("-inf"))
"""A number that stands in several parts."""


@pytest.mark.parametrize("best", TIED)
@pytest.mark.parametrize("function", [torch.argmax, lambda x: x.argmin(-1), lambda x: x.view(2, -1).argmax(1)])
def test_the_first_place_of_the_best(function, best):
    """argmax returns the first index among all parts; 40,009 is a prime, so the last part is shorter."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    x = torch.full((2, 40_009), -1.0 if best == best and best > 0 else best)
    x[:, 30_000] = x[:, 39_999] = best
    compiled = nbcompile.compile(function, options={"target": "sm_90"})
    assert torch.equal(compiled(x), function(x))
    assert torch.equal(compiled(-x), function(-x))
    assert len(reductions(function, x)) >= 3


@pytest.mark.parametrize("kind", ["sum", "amax", "amin", "prod", "any", "all"])
def test_a_prime_length(kind):
    """Elements after the end of the last part do not change the result."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    torch.manual_seed(0)
    function, x = getattr(torch, kind), torch.rand(40_009) + 0.5
    if kind == "prod":
        x = 1 + (x - 1) / 1e3
    for given in (x, -x if kind in ("amax", "amin") else x, x.bool() if kind in ("any", "all") else x):
        found = nbcompile.compile(lambda x: function(x), options={"target": "sm_90"})(given)
        torch.testing.assert_close(found, function(given), rtol=1e-4, atol=1e-4)
    assert len(reductions(lambda x: function(x), x)) == 2


def test_columns_of_a_tall_matrix_are_read_along_their_rows():
    """One program reduces the parts of 32 adjacent columns."""
    program = lower(traced(lambda x: x.sum(0), X := torch.randn(8192, 32)), device=GPU)
    first, *_ = schedule(program).kernels()
    assert first.vector_variable == first.loops[-1].variable
    assert stride_along(next(loads(first.body[0].body[0].value)).index[0], first.vector_variable) == 1


def test_graphs_on_a_gpu_are_split_too():
    """Without a target, the device of the tensors decides."""
    with FakeTensorMode():
        x = torch.empty(1 << 16, device="cuda")
        assert len(reductions(lambda x: x.sum(), x, device=None)) == 2


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
    """The compiled code for a GPU, in the simulator, gives eager's result."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    torch.manual_seed(0)
    x = torch.randn(32, 64, 96)
    function = PROGRAMS[name]
    found = nbcompile.compile(function, options={"target": "sm_90"})(x)
    torch.testing.assert_close(found, function(x), rtol=1e-3 if name == "half precision" else 1e-4, atol=1e-2)
    assert len(reductions(function, x)) >= 2


@pytest.mark.parametrize(
    ("function", "shape"), [(lambda x: x.sum(0), (1000, 300)), (lambda x: x.amax(1), (3, 512, 64))]
)
def test_partial_results_of_adjacent_columns_are_adjacent(function, shape):
    """Partial results are stored and loaded in whole sectors; the results equal eager's."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    torch.manual_seed(0)
    nbcompile.reset()
    x = torch.randn(shape)
    found = nbcompile.explain(function, options={"target": "sm_90"})(x)
    torch.testing.assert_close(found.result, function(x), rtol=1e-4, atol=1e-4)
    assert len(found.kernels) == 2
    assert min(kernel.gpu.coalescing for kernel in found.kernels) >= 0.85
