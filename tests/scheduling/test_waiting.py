"""Reasons in the record that say which device or step waits for which."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import Extern
from nbcompile.scheduling import waiting
from tests.scheduling.test_collectives import begun, square, wait
from tests.support.lowered import programs
from tests.support.one_rank import one_rank  # noqa: F401 - a process group of one


def reasons(function, *inputs) -> dict[str, str]:
    """The reason of each call, by operator."""
    _, plan = programs(function, *inputs)
    return {step.target._opname: step.reason for step in plan.steps if isinstance(step, Extern)}


def test_a_collective_says_what_runs_meanwhile_and_who_waits():
    """The reason of a collective names the steps that overlap with it, and the step that waits."""

    def program(x, y):
        total = wait(begun(x.sin()))
        return y @ y + total

    found = reasons(program, square(), square())
    assert found["all_reduce"] == "between processes: meanwhile extern2 (mm); extern1 (wait_tensor) waits for it"
    assert found["wait_tensor"] == "between processes: the CPU waits for extern0 (all_reduce)"


def test_nothing_runs_beside_what_is_needed_at_once():
    """If the result is needed at once, nothing overlaps: other collectives and waits do not count."""

    def program(x):
        return wait(begun(wait(begun(x)), "broadcast")) + 1

    found = reasons(program, square())
    assert "meanwhile nothing" in found["all_reduce"] and "meanwhile nothing" in found["broadcast"]


def test_what_leaves_the_graph_and_what_was_begun_outside():
    """A collective may be waited for in another graph, and a wait may belong to a collective of another graph."""
    found = reasons(lambda x: begun(x, "all_gather"), square())
    assert found["all_gather_into_tensor"].endswith("does not wait for it, and its memory is not used again")
    found = reasons(lambda x: wait(x) + 1, square())
    assert found["wait_tensor"].endswith("waits for a collective that was begun outside of the graph")


def test_many_kernels_are_counted():
    """A reason names four steps, and counts the others."""

    def program(x, y):
        total = begun(x.sin())
        for _ in range(7):
            y = (y @ y).relu()
        return wait(total) + y

    text = reasons(program, square(), square())["all_reduce"]
    assert text.count("(mm)") == 2 and " and 9 more; extern8 (wait_tensor)" in text


def test_work_without_a_wait_keeps_its_reason():
    """A product on the CPU does not wait for another device, so its reason is unchanged."""
    found = reasons(lambda x: x @ x, square())
    assert "processes" not in found["mm"] and "waits" not in found["mm"]


@pytest.mark.parametrize("target", sorted(waiting.WAITING - waiting.DEVICE_CHECKS, key=str), ids=str)
def test_what_the_cpu_waits_for_exists_in_torch(target):
    """Each operator for which the CPU waits exists in torch."""
    assert isinstance(target, torch._ops.OpOverload)


@pytest.mark.parametrize(("limits", "asked"), [((), True), ((0, 0), True), ((2, 2), True), ((0, 1), False)])
def test_a_histogram_without_a_range_asks_for_the_numbers(limits, asked):
    """A histogram with equal limits reads the minimum and the maximum, so the CPU waits."""
    histogram = Extern("extern0", torch.ops.aten.histc.default, (None, 10, *limits), {}, "")
    assert waiting.looks_for_range(histogram) is asked
    assert not waiting.looks_for_range(Extern("extern0", torch.ops.aten.clamp.default, (None, 0, 0), {}, ""))
