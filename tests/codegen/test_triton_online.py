"""Two looped reductions of a row in one loop: in Triton's interpreter and in the simulator."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.codegen import triton
from tests.lowering.test_one_pass import interpreted, planned_for_a_gpu

PROGRAMS = {
    "softmax": (lambda x: x.softmax(-1), "next_exponentials("),
    "log softmax of a product": (lambda x: (x * 2).log_softmax(-1), "next_exponentials("),
    "variance": (lambda x: x.var(-1), "next_squares("),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), "next_squares("),
    "the mean, and what is apart from it": (
        lambda x: (m := x.mean(-1, keepdim=True), (x - m).square().sum(-1)), "next_squares("),
    "double": (lambda x: x.double().var(-1), "next_squares("),
}  # fmt: skip
"""Programs, and what their kernels call: rows of dynamic length are looped over."""
ROWS = {
    "random": [],
    "-inf at first": [(0, 1500, float("-inf"))],
    "all of it -inf": [(0, None, float("-inf"))],
    "inf": [(70, 71, float("inf"))],
    "nan": [(1200, 1201, float("nan"))],
    "far apart": [(0, 1100, -300.0), (1100, None, 300.0)],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_loop_gives_eagers_numbers(name):
    """One loop gives eager's values, for rows with infinities and NaN, and with a partial last block, too."""
    function, call = PROGRAMS[name]
    x = torch.randn(len(ROWS), 2500) + 20
    for at, changes in enumerate(ROWS.values()):
        for start, stop, value in changes:
            x[at, start:stop] = value
    planned = planned_for_a_gpu(function, x, dynamic=True)
    (kernel,) = triton.emit(planned).kernels
    assert call in kernel.source
    expected = function(x)
    compiled = nbcompile.compile(function, dynamic=True, options={"target": "sm_90"})(x)
    tensors = [each if isinstance(each, tuple) else (each,) for each in (compiled, expected)]
    for found in (tensors[0], interpreted(planned, x)):
        for ours, eager in zip(found, tensors[1], strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, equal_nan=True)
    nbcompile.reset()


@pytest.mark.parametrize("number", [1e6 + 0.3, 0.1])
@pytest.mark.parametrize("name", ["variance", "layer norm", "double"])
def test_equal_numbers_have_no_distance_from_their_mean(name, number):
    """The sum of differences from the mean, in the same loop, corrects the mean: equal numbers have a variance of 0."""
    function, call = PROGRAMS[name]
    x = torch.full((3, 2500), number)
    planned = planned_for_a_gpu(function, x, dynamic=True)
    (kernel,) = triton.emit(planned).kernels
    assert call in kernel.source
    for found in (
        nbcompile.compile(function, dynamic=True, options={"target": "sm_90"})(x), *interpreted(planned, x)
    ):  # fmt: skip
        assert (found == 0).all()
    nbcompile.reset()


def test_one_row_that_fits_one_block():
    """A row that fits into one block, and a single number, work."""
    for length in (1, 7, 1024):
        x = torch.randn(2, length)
        compiled = nbcompile.compile(
            lambda x: (x.softmax(-1), x.var(-1, correction=0)), dynamic=True, options={"target": "sm_90"}
        )
        for ours, eager in zip(compiled(x), (x.softmax(-1), x.var(-1, correction=0)), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-6)
    nbcompile.reset()


NOT_TOGETHER = {
    "what is apart from another number": lambda x: (x - x.sum(-1, keepdim=True) / 7).square().sum(-1),
    "a value of another row": lambda x: (x - x.mean(-1, keepdim=True)).mul(x).sum(-1),
    "exponentials of a sum": lambda x: (x - x.sum(-1, keepdim=True)).exp().sum(-1),
    "exponentials of something else": lambda x: (2 * x - x.amax(-1, keepdim=True)).exp().sum(-1),
}


@pytest.mark.parametrize("name", NOT_TOGETHER)
def test_what_is_no_such_pair_has_two_loops(name):
    """Two reductions that are no such pair have two loops."""
    x = torch.randn(2, 1500) / 100
    (kernel,) = triton.emit(planned_for_a_gpu(NOT_TOGETHER[name], x, dynamic=True)).kernels
    assert kernel.source.count("for begin") == 2
    assert "next_" not in kernel.source
    found = nbcompile.compile(NOT_TOGETHER[name], dynamic=True, options={"target": "sm_90"})(x)
    torch.testing.assert_close(found, NOT_TOGETHER[name](x), rtol=1e-4, atol=1e-4)
    nbcompile.reset()
