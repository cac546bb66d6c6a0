"""Our own random numbers: one seed gives one stream on every target, with torch's distributions."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.ir import buffer as ir, evaluate, verify
from nbcompile.ir.eager_operations import EVALUATE
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support import targets
from tests.support.lowered import externs, require_equal, traced

OWN = {"fallback_random": False}
X = torch.linspace(-2, 2, 3 * 37).view(3, 37)


def compiled(function, **how):
    """A function compiled with our own random numbers, in one graph."""
    return nbcompile.compile(function, fullgraph=True, options=OWN, **how)


# --- one stream --------------------------------------------------------------------------------------------------------


def with_seed_as_argument(program: ir.Program) -> ir.Program:
    """The same program with the seed as an argument: Triton's interpreter calls no ATen."""
    buffers = [
        ir.GraphInput(each.name, each.dtype, each.device, each.layout, program.arguments)
        if isinstance(each, ir.ExternOutput)
        else each
        for each in program.buffers
        if not isinstance(each, ir.Extern)
    ]
    return ir.Program(tuple(buffers), program.outputs, program.arguments + 1)


def draws(x):
    """Each distribution and dtype with a separate formula, at several offsets and strides."""
    return [
        torch.rand(3, 37) + x,
        torch.rand(37, 3).t() * 2,
        torch.randn_like(x).sum(1),
        torch.rand(5, dtype=torch.float64),
        torch.randn(70, dtype=torch.float64),
        torch.rand(64, dtype=torch.bfloat16),
        F.dropout(x, 0.3, True) * 2,
        *torch.ops.aten.native_dropout(x, 0.3, True),
        torch.bernoulli(x.sigmoid()),
        torch.randint(-3, 9, (2, 35)),
        torch.ops.aten.exponential(x, 2.0),
        torch.normal(x, 2.0)[1:, ::2],
    ]


def test_the_same_numbers_on_every_target():
    """Evaluator, C++ and Triton's interpreter give the same numbers for one seed; only the seed is drawn by ATen."""
    program = lower(traced(draws, X), generate_random=True)
    assert externs(program) == ["aten.randint.low"]
    program = with_seed_as_argument(program)
    verify.verify_program(program)
    planned = schedule(program, verify.verify_program)
    verify.verify_schedule(planned)
    for seed in (0, -(2**63) + 12345, 2**62 + 1):
        inputs = [X, torch.tensor(seed)]
        expected = evaluate.run(program, inputs)
        require_equal(evaluate.run(planned, inputs), expected)
        require_equal(targets.run_cpp(planned, inputs), expected)
        if targets.HAS_TRITON:
            require_equal(targets.run_triton(planned, inputs), expected)


def test_it_is_philox():
    """The first two words are the known answers of Philox4x32-10 (Random123)."""
    zero, ones = torch.tensor(0), torch.tensor(-1)
    philox = EVALUATE["philox"]
    assert philox(zero, zero).item() & (2**64 - 1) == 0xE169C58D6627E8D5
    low = philox(ones, ones).item() & (2**64 - 1)
    assert low != philox(ones, zero).item() & (2**64 - 1)


# --- the distributions -------------------------------------------------------------------------------------------------

MANY = 200_000
EMPTY = torch.empty(MANY)
DISTRIBUTIONS = {
    # name: (program, mean, standard deviation, least, greatest)
    "rand": (lambda x: torch.rand_like(x), 0.5, 12**-0.5, 0, 1),
    "rand of doubles": (lambda x: torch.rand(MANY, dtype=torch.float64), 0.5, 12**-0.5, 0, 1),
    "rand of halves": (lambda x: torch.rand(MANY, dtype=torch.float16), 0.5, 12**-0.5, 0, 0.9999),
    "rand of bfloat16": (lambda x: torch.rand(MANY, dtype=torch.bfloat16), 0.5, 12**-0.5, 0, 0.9999),
    "randn": (lambda x: torch.randn_like(x), 0, 1, -6, 6),
    "randn of doubles": (lambda x: torch.randn(MANY, dtype=torch.float64), 0, 1, -7, 7),
    "uniform": (lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 4 * 12**-0.5, -1, 3),
    "normal": (lambda x: torch.empty_like(x).normal_(-1, 3), -1, 3, -19, 17),
    "normal of tensors": (lambda x: torch.normal(torch.full_like(x, 2), torch.full_like(x, 3)), 2, 3, -16, 20),
    "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.2)), 0.2, 0.4, 0, 1),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.2), 0.2, 0.4, 0, 1),
    "randint": (lambda x: torch.randint(-3, 7, (MANY,)), 1.5, 8.25**0.5, -3, 6),
    "randint_like": (lambda x: torch.randint_like(x, 10), 4.5, 8.25**0.5, 0, 9),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5, 1e-9, 20),
    "geometric": (lambda x: torch.empty_like(x).geometric_(0.25), 4, 12**0.5, 1, 200),
    "log_normal": (lambda x: torch.empty_like(x).log_normal_(0, 0.5).log(), 0, 0.5, -3, 3),
    "cauchy": (lambda x: torch.empty_like(x).cauchy_(1, 2).sub(1).div(2).atan(), 0, math.pi * 12**-0.5, -1.6, 1.6),
    "dropout": (lambda x: F.dropout(torch.ones_like(x), 0.2), 1, 0.5, 0, 1.25),
}


@pytest.fixture(scope="module")
def drawn():
    """Random numbers of all distributions, from one graph."""
    torch.manual_seed(3)
    found = compiled(lambda x: [function(x) for function, *_ in DISTRIBUTIONS.values()])(EMPTY)
    return dict(zip(DISTRIBUTIONS, found, strict=True))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name, drawn):
    """Mean and deviation are within five standard errors, and no number is outside the range."""
    _, mean, deviation, least, greatest = DISTRIBUTIONS[name]
    found = drawn[name].double()
    assert abs(found.mean() - mean) < 5 * deviation / MANY**0.5
    assert abs(found.std() / deviation - 1) < 0.02
    assert least <= found.min()
    assert found.max() <= greatest


def test_draws_of_one_call_are_independent():
    """The draws of one call continue one counter: they differ, and do not correlate."""
    torch.manual_seed(3)
    first, second = compiled(lambda: (torch.rand(50_000), torch.rand(50_000)))()
    assert not set(first[:100].tolist()) & set(second[:100].tolist())
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.02


# --- in a program ------------------------------------------------------------------------------------------------------


def test_manual_seed_is_honoured():
    """The same seed gives the same numbers, and another call gives others, with symbolic sizes, too."""
    function = compiled(lambda x: x + torch.rand_like(x), dynamic=True)
    torch.manual_seed(7)
    first, second = function(X), function(X)
    torch.manual_seed(7)
    again = function(X)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert function(X[:2]).shape == (2, 37)


def test_the_backward_pass_uses_the_mask_of_the_forward_pass():
    """The gradient of a dropped element is zero, and elsewhere it is the scale."""
    x = torch.ones(50, 41, requires_grad=True)
    found = compiled(lambda x: F.dropout(F.relu(x), 0.25, True).sin())(x)
    found.sum().backward()
    scaled = found.detach().asin()
    dropped = scaled == 0
    assert 0.15 < dropped.float().mean() < 0.35
    torch.testing.assert_close(x.grad[dropped], torch.zeros(int(dropped.sum())))
    kept = torch.tensor(1 / 0.75) * torch.tensor(1 / 0.75).cos()
    torch.testing.assert_close(x.grad[~dropped], kept.expand(int((~dropped).sum())))


def test_dropout_is_one_kernel_with_its_neighbours():
    """Dropout is fused with its neighbours."""
    program = lower(traced(lambda x, y: F.dropout(x + 1, 0.5, True) * y, X, X), generate_random=True)
    assert len(list(schedule(program).kernels())) == 1


def test_a_model_with_dropout_learns():
    """A training step has finite gradients for all parameters; in evaluation mode nothing is dropped."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8))
    call = compiled(model)
    call(X[:, :8]).square().sum().backward()
    assert all(each.grad.isfinite().all() for each in model.parameters())
    model.eval()
    torch.testing.assert_close(call(X[:, :8]), model(X[:, :8]))


def test_by_default_numbers_are_those_of_eager():
    """By default ATen draws, so that compiled and eager results agree for one seed."""

    def function(x):
        return F.dropout(x, 0.5, True) + torch.randn_like(x)

    torch.manual_seed(1)
    expected = function(X)
    torch.manual_seed(1)
    torch.testing.assert_close(nbcompile.compile(function)(X), expected)


def test_a_generator_of_ones_own_is_drawn_from():
    """Numbers of a torch.Generator are drawn by ATen, which continues its stream."""
    expected = torch.empty(9).normal_(generator=torch.Generator().manual_seed(2))
    graph = traced(lambda x: torch.empty(9).normal_(), X)
    program = lower(graph, generate_random=True)
    assert externs(program) == ["aten.randint.low"]
    found = nbcompile.compile(lambda g: torch.empty(9).normal_(generator=g), options=OWN)(
        torch.Generator().manual_seed(2)
    )
    assert torch.equal(found, expected)


def test_verify_leaves_random_graphs_alone():
    """Verification skips graphs with our own random numbers: eager mode draws others."""
    nbcompile.compile(lambda x: x + torch.rand_like(x), options={**OWN, "verify": True})(X)
