"""The schedule of a graph needs no more memory than its live buffers at the peak."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.node_meta import DONATED
from nbcompile.ir import evaluate, verify
from nbcompile.ir.buffer import Extern, ExternOutput, Scatter, views_in
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from nbcompile.scheduling.dependencies import reads
from tests.support.lowered import check, programs, traced


def held(plan: Schedule) -> int:
    """The peak of the bytes that the steps allocate."""
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
    """The peak of the bytes of live buffers: written, and read later or returned."""
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
    """The first product's memory fits the last one; a large buffer is live in between."""
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
    """The result of attention has the layout batch, length, heads, width."""
    heads = x.view(2, 8, 2, 8).transpose(1, 2)
    for _ in range(3):
        heads = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).sin()
    return heads + 1


@pytest.mark.parametrize("function", [in_between, chain, growing, scattered, in_another_order])
def test_no_more_is_held_than_lives(function):
    """Memory that waits for reuse does not raise the peak."""
    x, y = torch.randn(16, 16) / 8, torch.randn(64, 16) / 8
    _, plan = check(function, x, y, allow_extern=True)
    assert held(plan) == alive(plan)


def test_memory_waits_where_there_is_room():
    """In a chain of equal buffers, each one reuses the memory of the buffer before the last."""
    x = torch.randn(16, 16)
    _, plan = programs(lambda x: torch.mm(torch.mm((x + 1).exp(), x).sin(), x).cos() + x, x)
    assert sum(isinstance(step, Reuse) for step in plan.steps) == 1


def test_a_donated_input_is_freed_after_its_last_read():
    """A donated input counts as allocated at the start, and is freed after its last read."""

    def program(saved, other):
        first = saved @ other
        second = first.sin() @ other
        return second.cos() @ saved[:1].t()

    inputs = [torch.randn(8, 8) for _ in range(2)]
    graph = traced(program, *inputs)
    for node in graph.graph.find_nodes(op="placeholder"):
        node.meta[DONATED] = node.name == "arg0_1"
    plan = schedule(lower(graph))
    verify.verify_schedule(plan)
    names = [step.buffer for step in plan.steps if isinstance(step, Free)]
    assert names.count("arg0_1") == 1
    assert "arg1_1" not in names
    at = next(at for at, step in enumerate(plan.steps) if isinstance(step, Free) and step.buffer == "arg0_1")
    last = [step for step in plan.steps[:at] if isinstance(step, Kernel | Extern)][-1]
    assert "arg0_1" in (last.reads if isinstance(last, Kernel) else reads(last))
    later = [step for step in plan.steps[at:] if isinstance(step, Kernel | Extern)]
    assert not [step for step in later if "arg0_1" in (step.reads if isinstance(step, Kernel) else reads(step))]
    (result,) = evaluate.run(plan, inputs, graph)
    torch.testing.assert_close(result, program(*inputs))


def test_a_donated_input_that_is_returned_is_not_freed():
    """A donated input that is returned, also as a view, is not freed."""
    inputs = [torch.randn(8, 8)]
    graph = traced(lambda x: (x.t(), x.sin()), *inputs)
    for node in graph.graph.find_nodes(op="placeholder"):
        node.meta[DONATED] = True
    assert not [step for step in schedule(lower(graph)).steps if isinstance(step, Free)]
