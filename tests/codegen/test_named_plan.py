"""Launch plans with the names of the wrapper's text."""

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
    """The steps of all lines, in order, are the plan: the text shows what runs."""
    plan = named(PROGRAMS[name])
    assert tuple(step for line in plan.lines for step in steps_of(line)) == plan.plan.steps
    assert plan.plan.steps


def test_statements_of_several_steps_are_one_line():
    """The line of an ATen call includes its views and its allocation."""
    plan = named(PROGRAMS["a call of ATen"])
    calls = [line for line in plan.lines if isinstance(line, LibraryCall)]
    assert len(calls) == 1
    assert len(steps_of(calls[0])) > 1


def test_a_buffer_that_takes_over_a_dead_one_has_its_slot():
    """A buffer that reuses the memory of a dead one has its slot: the slot has both names, in order."""
    plan = named(PROGRAMS["memory taken over"])
    (line,) = [line for line in plan.lines if isinstance(line, TakeOver)]
    assert line.slot == line.source
    assert len(plan.names[line.slot]) == 2


def test_a_part_of_a_plan_calls_slots_by_their_numbers():
    """In a part of a plan, each slot has its number as name, and each step is one line."""
    plan = named(PROGRAMS["one kernel"]).plan
    part = with_slot_names(plan, frozenset({0}), {})
    assert part.lines == plan.steps
    assert [part.names[slot] for slot in range(plan.slots)] == [(f"s{slot}",) for slot in range(plan.slots)]
    assert part.written == {0}
