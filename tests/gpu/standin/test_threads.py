"""Concurrent calls of one compiled function: each thread gets eager mode's results, which do not change later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.gpu import elf

THREADS, CALLS = 4, 4
MODES = ("default", "reduce-overhead")
pytestmark = pytest.mark.usefixtures("nothing_is_left", "switched_often")


@pytest.fixture
def switched_often():
    """The interpreter switches threads every few microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], object], count: int = THREADS) -> list:
    """The results of ``work(0)``, ``work(1)``, ..., which start at the same time."""
    barrier = threading.Barrier(count)
    results: list = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def mixed(x, w):
    """A function with temporaries in shared graph memory, and an operator of ATen."""
    return torch.softmax(torch.sin(x) @ w, -1).sum(0), torch.relu(x) + 1


@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "a stream each"])
@pytest.mark.parametrize("mode", MODES)
def test_results_are_eagers_and_stay(here, mode, streams):
    """All results stay alive, and no other thread overwrites them."""
    compiled = nbcompile.compile(mixed, mode=mode)
    w = torch.randn(32, 32, device="cuda")
    for _ in range(3):
        same(compiled(torch.ones(16, 32, device="cuda"), w), mixed(torch.ones(16, 32, device="cuda"), w))

    def work(number: int):
        # Numbers in memory that the allocator has not given to the recording stream.
        with here.stream(1000 + number if streams else 0):
            kept = []
            for call in range(CALLS):
                x = torch.full((16, 32), number + call / 7, device="cuda")
                kept.append((x, compiled(x, w)))
            return kept

    for kept in in_threads(work):
        for x, result in kept:
            same(result, mixed(x, w))


@pytest.mark.parametrize("mode", MODES)
def test_random_numbers_are_drawn_once_each(here, mode):
    """All threads together draw the numbers that one thread would have drawn: no number appears twice."""

    def function(x):
        return torch.relu(x) * 0 + torch.rand(16, device="cuda")

    compiled = nbcompile.compile(function, mode=mode)
    x = torch.ones(16, device="cuda")
    for _ in range(3):
        compiled(x)
    torch.manual_seed(5)
    expected = [tuple(torch.rand(16, device="cuda").tolist()) for _ in range(THREADS * CALLS)]
    torch.manual_seed(5)
    found = in_threads(lambda number: [compiled(x) for _ in range(CALLS)])
    drawn = [tuple(row.tolist()) for rows in found for row in rows]
    assert sorted(drawn) == sorted(expected)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_threads_are_eagers(here, mode):
    """Several threads run forward passes of one module before the backward passes, and get eager's gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("cuda")
    compiled = nbcompile.compile(model, mode=mode)
    for _ in range(3):
        compiled(torch.ones(8, 16, device="cuda", requires_grad=True)).sum().backward()
    parameters = list(model.parameters())

    def gradients(called, x):
        loss = called(x).pow(2).sum()
        return [loss.detach(), *torch.autograd.grad(loss, [x, *parameters])]

    def work(number: int):
        kept = []
        for call in range(CALLS):
            x = torch.full((8, 16), 1 + number / 5 + call / 7, device="cuda", requires_grad=True)
            kept.append((x, gradients(compiled, x)))
        return kept

    for kept in in_threads(work, 4):
        for x, found in kept:
            same(found, gradients(model, x))


def test_buffers_that_all_threads_write_lose_no_update(here):
    """Each replay increments the counter once."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(8, device="cuda"))

        def forward(self, x):
            self.seen.add_(1)
            return x * 2

    model = Counter()
    compiled = nbcompile.compile(model, mode="reduce-overhead")
    x = torch.ones(8, device="cuda")
    for _ in range(3):
        compiled(x)
    in_threads(lambda number: [compiled(x) for _ in range(CALLS)])
    assert model.seen.tolist() == [float(3 + THREADS * CALLS)] * 8


def test_threads_that_record_at_the_same_time(here):
    """While one thread records a new size, the others launch kernels."""
    compiled = nbcompile.compile(mixed, mode="reduce-overhead", dynamic=True)
    w = torch.randn(32, 32, device="cuda")
    compiled(torch.ones(7, 32, device="cuda"), w)

    def work(number: int):
        kept = []
        for call in range(2 * CALLS):
            x = torch.full((8 + call % 3, 32), number + call / 7, device="cuda")
            kept.append((x, compiled(x, w)))
        return kept

    for kept in in_threads(work):
        for x, result in kept:
            same(result, mixed(x, w))
    assert any(line.startswith("replay") for line in here.driver.log())


def test_pointers_of_other_alignment_in_many_threads(here, monkeypatch):
    """The code for other alignments is loaded once, also if several threads need it at the same time."""
    length = elf.length

    def length_after_others_ran(head: bytes) -> int:
        time.sleep(0.05)
        return length(head)

    monkeypatch.setattr(elf, "length", length_after_others_ran)
    compiled = nbcompile.compile(lambda x: torch.sin(x) * 2)
    compiled(torch.ones(64, device="cuda"))
    base = torch.randn(65, device="cuda")
    here.driver.clear_log()
    for result in in_threads(lambda number: compiled(base[1:])):
        same(result, torch.sin(base[1:]) * 2)
    assert len([line for line in here.driver.log() if line.startswith("load")]) == 1
