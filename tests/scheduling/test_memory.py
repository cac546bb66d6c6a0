"""A graph needs as much memory as what lives in it at its worst moment, and no more."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import Extern, ExternOutput, Scatter, views_in
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule
from nbcompile.scheduling.dependencies import reads
from tests.support.lowered import check, programs


def held(plan: Schedule) -> int:
    """The most bytes that the steps hold at once."""
    tensors = plan.program.tensors()
    now, most = {}, 0
    for step in plan.steps:
        match step:
            case Allocate(buffer):
                now[buffer] = size_of(tensors[buffer])
            case Reuse(buffer, memory_of):
                now[buffer] = now.pop(memory_of)
            case Free(buffer):
                del now[buffer]
            case Extern():
                now |= {each.name: size_of(each) for each in results(plan, step)}
        most = max(most, sum(now.values()))
    return most


def alive(plan: Schedule) -> int:
    """The most bytes of buffers that were written, and are read later or returned."""
    tensors = plan.program.tensors()
    launches = [each for each in plan.steps if isinstance(each, Kernel | Extern)]
    touched = {}
    for at, launch in enumerate(launches):
        if isinstance(launch, Kernel):
            names = [*launch.reads, *launch.writes]
        else:
            names = [*reads(launch), *(each.name for each in results(plan, launch))]
        for name in names:
            while isinstance(tensors[name], Scatter):
                name = tensors[name].into
            touched.setdefault(name, []).append(at)
    returned = {each.buffer for each in views_in(plan.program.outputs)}
    made = {each.buffer for each in plan.steps if isinstance(each, Allocate | Reuse)}
    made |= {each.name for each in tensors.values() if isinstance(each, ExternOutput)}
    lives = [
        (uses[0], len(launches) if name in returned else uses[-1], size_of(tensors[name]))
        for name, uses in touched.items()
        if name in made
    ]
    return max(sum(size for first, last, size in lives if first <= at <= last) for at in range(len(launches)))


def results(plan: Schedule, extern: Extern) -> list[ExternOutput]:
    return [
        each for each in plan.program.buffers if isinstance(each, ExternOutput) and each.extern == extern.name
    ]  # fmt: skip


def size_of(tensor) -> int:
    return int(tensor.layout.span) * tensor.dtype.itemsize


def in_between(x, y):
    """Memory of the first product fits the last one; between them lives something large."""
    small = torch.mm(torch.mm(x, x).sin(), x)
    large = torch.mm((torch.mm(y, small) + 1).exp(), small.cos())
    return torch.mm(large.t().sin().sum(1, keepdim=True) + torch.mm(x, x).cos(), x).tanh()


def chain(x, y):
    for _ in range(5):
        x = torch.mm((x + 1).sin() / 16, x)
    return x + 1


def growing(x, y):
    wide = torch.cat([y, y * 2]).sin()
    return torch.mm(torch.mm(wide, x).exp(), x.cos()).sum(0), torch.mm(x.tanh(), x).cos() + 1


def scattered(x, y):
    rows = torch.arange(16)
    return torch.mm(torch.zeros(64, 16).index_add(0, rows, torch.mm(x, x).sin()), x).exp() + 1


def in_another_order(x, y):
    """Attention's result lies as batch, length, heads, width."""
    heads = x.view(2, 8, 2, 8).transpose(1, 2)
    for _ in range(3):
        heads = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).sin()
    return heads + 1


@pytest.mark.parametrize("function", [in_between, chain, growing, scattered, in_another_order])
def test_no_more_is_held_than_lives(function):
    """Memory that waits for its next buffer does not add to the worst moment."""
    x, y = torch.randn(16, 16) / 8, torch.randn(64, 16) / 8
    _, plan = check(function, x, y, allow_extern=True)
    assert held(plan) == alive(plan)


def test_memory_waits_where_there_is_room():
    """In a chain of equal buffers each takes over the memory of the one before last."""
    x = torch.randn(16, 16)
    _, plan = programs(lambda x: torch.mm(torch.mm((x + 1).exp(), x).sin(), x).cos() + x, x)
    assert sum(isinstance(step, Reuse) for step in plan.steps) == 1
