"""From a program to a schedule: the passes, and the order of launches."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.aot.decompositions import default_table
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse
from nbcompile.lowering import lower
from nbcompile.scheduling import plan, schedule
from nbcompile.support import fuel


def program_of(function, *inputs):
    graph = make_fx(function, decomposition_table=default_table(), tracing_mode="fake")(*inputs)
    return lower(graph)


def softmax(x):
    return torch.softmax(x + 1, -1)


X = torch.randn(4, 8)


def test_each_pass_is_seen_by_who_verifies():
    """The verifier runs after each pass over the program, and after recomputation."""
    seen = []
    schedule(program_of(softmax, X), seen.append)
    assert len(seen) == len(plan.PASSES) + 1


def test_passes_that_only_improve_can_be_left_out():
    """Optional passes can be left out, so that a bisection finds a wrong one; needed passes always run."""
    program = program_of(softmax, X)
    seen = []
    with fuel.limited("pass", 0):
        bare = schedule(program, seen.append)
    assert len(seen) == len(plan.NEEDED) + 1
    assert [*bare.kernels()]


def test_a_chain_is_one_kernel_and_an_extern_call_parts_it():
    """A chain is one kernel; an extern call splits it."""
    assert len([*schedule(program_of(softmax, X)).kernels()]) == 1
    parted = schedule(program_of(lambda x, w: torch.relu(torch.relu(x) @ w), X, torch.randn(8, 8)))
    kinds = [type(step).__name__ for step in parted.steps if not isinstance(step, (Allocate, Reuse, Free))]
    assert kinds == ["Kernel", "Extern", "Kernel"]


def test_a_buffer_that_only_its_kernel_reads_is_never_stored():
    """A buffer that only its own kernel reads has no memory."""
    planned = schedule(program_of(softmax, X))
    (kernel,) = planned.kernels()
    assert len(kernel.writes) == 1 < len(kernel.buffers)
    assert [step.buffer for step in planned.steps if isinstance(step, Allocate)] == [*kernel.writes]


def test_every_buffer_is_allocated_before_it_is_written():
    """Each buffer is allocated before it is written, and freed after its last use unless it is returned."""
    planned = schedule(program_of(lambda x, w: (x.sin() @ w).cos() @ w, X[:, :8], torch.randn(8, 8)))
    alive = set()
    for step in planned.steps:
        if isinstance(step, (Allocate, Reuse)):
            alive.add(step.buffer)
            alive.discard(getattr(step, "memory_of", ""))
        elif isinstance(step, Free):
            alive.remove(step.buffer)
        elif isinstance(step, Kernel):
            assert set(step.writes) <= alive
        else:  # an operator allocates its results
            alive |= {result.name for result in planned.program.outputs_of[step.name]}
