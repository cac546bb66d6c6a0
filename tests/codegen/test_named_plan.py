"""Launch plans with the names that a reader knows."""

import pytest
import torch

from nbcompile.codegen.kernels import emit_kernel
from nbcompile.codegen.launch_plan import make_launch_plan
from nbcompile.codegen.named_plan import LibraryCall, TakeOver, steps_of, with_slot_names
from tests.support.lowered import programs

PROGRAMS = {
    "one kernel": lambda x: torch.sin(x) + 1,
    "memory taken over": lambda x: (torch.relu(x @ x) @ x).relu() @ x,
    "a call of ATen": lambda x: torch.relu(x @ x) + 1,
    "sorted": lambda x: torch.sort(torch.sin(x))[0] * 2,
}


def named(function):
    _, schedule = programs(function, torch.randn(8, 8))
    return make_launch_plan(schedule, [emit_kernel(kernel, schedule) for kernel in schedule.kernels()])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lines_are_the_plan(name):
    """The steps of all lines, one after the other, are those of the plan: what is shown is what runs."""
    plan = named(PROGRAMS[name])
    assert tuple(step for line in plan.lines for step in steps_of(line)) == plan.plan.steps
    assert plan.plan.steps


def test_statements_of_several_steps_are_one_line():
    """A call of ATen has its views and its allocation in its line."""
    plan = named(PROGRAMS["a call of ATen"])
    calls = [line for line in plan.lines if isinstance(line, LibraryCall)]
    assert len(calls) == 1
    assert len(steps_of(calls[0])) > 1


def test_a_buffer_that_takes_over_a_dead_one_has_its_slot():
    """The slot then has two names, in the order in which it holds the buffers."""
    plan = named(PROGRAMS["memory taken over"])
    (line,) = [line for line in plan.lines if isinstance(line, TakeOver)]
    assert line.slot == line.source
    assert len(plan.names[line.slot]) == 2


def test_a_part_of_a_plan_calls_slots_by_their_numbers():
    """Each slot has a name, and each step is a line of its own."""
    plan = named(PROGRAMS["one kernel"]).plan
    part = with_slot_names(plan, frozenset({0}), {})
    assert part.lines == plan.steps
    assert [part.names[slot] for slot in range(plan.slots)] == [(f"s{slot}",) for slot in range(plan.slots)]
    assert part.written == {0}
