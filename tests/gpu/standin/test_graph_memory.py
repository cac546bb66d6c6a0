"""The memory that recorded graphs share: its size, and the safety of live results."""

from __future__ import annotations

import gc
import random

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.gpu import cuda_graphs

MODE = "reduce-overhead"
pytestmark = pytest.mark.usefixtures("nothing_is_left")


def lines(here, *starts) -> list[str]:
    return [line for line in here.driver.log() if line.startswith(starts)]


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def with_temporaries(x, w):
    """A function whose matrix product has two temporaries."""
    return torch.softmax(torch.sin(x) @ w, -1).sum()


def test_temporaries_of_graphs_on_both_sides_of_a_break_share_memory(here):
    """Two equal graphs need the memory of one, and four bytes for a result."""

    def once(x, w):
        return with_temporaries(x, w)

    def twice(x, w):
        first = with_temporaries(x, w)
        nbcompile.graph_break()
        return first, with_temporaries(x, w)

    x, w = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    needed = {}
    for function in (once, twice):
        compiled = nbcompile.compile(function, mode=MODE)
        compiled(x, w)
        gc.collect()
        before = here.driver.allocated()
        for _ in range(3):
            here.driver.clear_log()
            same(compiled(x, w), function(x, w))
        gc.collect()
        needed[function] = here.driver.allocated() - before
        assert here.module.pool_count() == 1
        assert len(lines(here, "replay")) == (1 if function is once else 2)
        nbcompile.reset()
        del compiled
        gc.collect()
    assert needed[once] >= 2 * 64 * 64 * 4
    assert needed[twice] <= needed[once] + 2 * 64


def test_sizes_share_memory(here):
    """The memory of one size is reused for smaller ones; dead outputs take no additional memory."""

    def function(x):
        return torch.softmax(x, -1) * 2

    compiled = nbcompile.compile(function, mode=MODE, dynamic=True)
    before = here.driver.allocated()
    for _ in range(3):
        for rows in (4, 5, 6):
            x = torch.randn(rows, 40, device="cuda")
            same(compiled(x), function(x))
    del x
    gc.collect()
    assert here.module.pool_count() == 1
    assert here.driver.allocated() > before


def test_equal_graphs_use_the_memory_of_one_output(here):
    """The memory of a dead output is reused by the next graph."""
    compiled = [nbcompile.compile(lambda x, n=n: torch.sin(x) * n, mode=MODE) for n in (2, 3, 4)]
    x = torch.randn(256, 64, device="cuda")
    for run in compiled:
        run(x)
    before = here.driver.allocated()
    for _ in range(3):
        for number, run in enumerate(compiled):
            same(run(x), torch.sin(x) * (number + 2))
    assert here.driver.allocated() - before == x.nbytes
    assert here.module.pool_count() == 1


@pytest.mark.parametrize("small", [0, cuda_graphs.MAX_COPIED_BYTES])
def test_outputs_in_the_memory_of_another_graph_stay_what_they_were(here, small, monkeypatch):
    """Live outputs are moved before another graph runs, or the graph is recorded again in other memory."""
    monkeypatch.setattr(cuda_graphs, "MAX_COPIED_BYTES", small)
    functions = [lambda x, n=n: torch.cos(torch.softmax(x, -1).sum(0)) + x * n for n in (2, 3)]
    compiled = [nbcompile.compile(function, mode=MODE) for function in functions]
    x = torch.randn(16, 32, device="cuda")
    for _ in range(3):
        for run in compiled:
            run(x)
    kept = []
    for _ in range(4):
        for function, run in zip(functions, compiled, strict=True):
            kept.append((run(x), function(x)))
            for found, expected in kept:
                same(found, expected)
        x = x + 1


def test_forward_and_backward_are_in_one_pool(here):
    """The backward pass reads saved tensors without a copy, and nothing is recorded again."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to("cuda")
    compiled = nbcompile.compile(model, mode=MODE)
    x = torch.randn(8, 16, device="cuda")
    for _ in range(5):
        here.driver.clear_log()
        grads = []
        for run in (compiled, model):
            run(x).square().mean().backward()
            grads.append([parameter.grad.clone() for parameter in model.parameters()])
            model.zero_grad()
        same(*grads)
        assert here.module.pool_count() <= 1
    assert len(lines(here, "replay")) == 2
    # Eager mode computes the gradient of the result.
    assert set(lines(here, "begin capture", "copy")) <= {f"copy {8 * 4 * 4}"}


def test_gradients_that_are_kept_are_not_overwritten_by_the_next_forward_pass(here):
    """A live gradient in memory of the forward pass is moved, or the pass is recorded again."""
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to("cuda")
    compiled = nbcompile.compile(model, mode=MODE)
    kept = []
    for _ in range(6):
        x = torch.randn(8, 16, device="cuda")
        found = torch.autograd.grad(compiled(x).square().mean(), list(model.parameters()))
        kept.append((found, torch.autograd.grad(model(x).square().mean(), list(model.parameters()))))
    for found, expected in kept:
        same(found, expected)


def test_an_output_whose_memory_is_another_graphs_makes_the_next_graph_begin_a_pool(here):
    """If the allocator could reuse an output's memory, the next graph begins a new pool."""
    first, second, third = (nbcompile.compile(lambda x, n=n: torch.sin(x) * n, mode=MODE) for n in (2, 3, 4))
    x = torch.randn(8, 64, device="cuda")
    for run in (first, first, second, second):
        run(x)
    kept = first(x)
    third(x)
    assert here.module.pool_count() == 1
    other = third(x)
    assert here.module.pool_count() == 2
    for _ in range(2):
        same(second(x), torch.sin(x) * 3)
        same(third(x), torch.sin(x) * 4)
        same(kept, torch.sin(x) * 2)
        same(other, torch.sin(x) * 4)


def test_a_pool_stays_while_an_output_lies_in_it(here):
    """A pool lives as long as an output in it, without its graphs, too; then it is freed with the next graph."""
    first, second = (nbcompile.compile(lambda x, n=n: torch.sin(x) * n, mode=MODE) for n in (2, 3))
    x = torch.randn(8, 64, device="cuda")
    for run in (first, first, second, second):
        run(x)
    kept = first(x)
    del first, second, run
    nbcompile.reset()
    gc.collect()
    assert here.module.pool_count() == 1
    torch.randn(8, 64, device="cuda")
    same(kept, torch.sin(x) * 2)
    del kept
    third = nbcompile.compile(lambda x: torch.cos(x), mode=MODE)
    for _ in range(3):
        third(x)
    assert here.module.pool_count() == 1


def test_a_graph_of_the_default_stream_does_not_run_on_another(here):
    """A graph that was recorded for the default stream does not run on another one."""
    compiled = nbcompile.compile(torch.sin, mode=MODE)
    x = torch.randn(8, 32, device="cuda")
    for _ in range(3):
        compiled(x)
    here.driver.clear_log()
    with here.stream(5):
        same(compiled(x), torch.sin(x))
    assert len(lines(here, "begin capture")) == 1
    assert here.module.pool_count() == 2


@pytest.mark.parametrize("seed", range(4))
def test_sequences_of_graphs_are_eagers(here, seed, monkeypatch):
    """Several functions, sizes and passes in a random order give eager's results, with some live outputs."""
    monkeypatch.setattr(cuda_graphs, "MAX_COPIED_BYTES", (0, 400, 1 << 20, 1 << 20)[seed])
    rng = random.Random(seed)
    torch.manual_seed(seed)
    w = torch.randn(16, 16, device="cuda", requires_grad=True)

    def chained(x):
        return torch.softmax(torch.sin(x) @ w, -1)

    def broken(x):
        y = torch.sin(x).sum(0)
        nbcompile.graph_break()
        return torch.softmax(x + y, -1), y

    def passed(x):
        return torch.autograd.grad((torch.tanh(x @ w) ** 2).sum(), w)[0]

    def differentiated(run):
        return lambda x: torch.autograd.grad(run(x).square().sum(), w)[0]

    compiled = [nbcompile.compile(function, mode=MODE) for function in (chained, broken, lambda x: torch.cos(x) * x)]
    pairs = [*zip(compiled, (chained, broken, lambda x: torch.cos(x) * x), strict=True)]
    pairs.append((differentiated(compiled[0]), differentiated(chained)))
    kept: list = []
    for _ in range(60):
        run, function = rng.choice(pairs)
        x = torch.randn(rng.choice((2, 3, 4)), 16, device="cuda")
        kept.append((run(x), function(x)))
        if len(kept) > 6:
            kept.pop(rng.randrange(len(kept)))
        for found, expected in kept:
            same(found, expected)
