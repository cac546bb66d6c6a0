"""The output of code generation for the runtime: plain data whose numbers refer to one another."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
import torch

from nbcompile.codegen import cpp
from nbcompile.ir import emitted
from nbcompile.ir.emitted import (
    AllocateSlot,
    Call,
    FreeSlot,
    Launch,
    Multiply,
    RuntimeSize,
    ViewSlot,
)
from tests.support.lowered import programs


def of(function, *inputs, **how):
    """The emitted program of a function."""
    return cpp.emit(programs(function, *inputs, **how)[1])


PROGRAMS = {
    "one kernel": (lambda x, y: (x + y).relu(), [(3, 4), (3, 4)]),
    "two equal kernels around a product": (lambda x, y: torch.mm((x + 1).sin(), (y + 1).sin()), [(4, 4), (4, 4)]),
    "a view": (lambda x, y: (x.t() + 1, (y * 2)[1:]), [(3, 4), (3, 4)]),
    "an operator": (lambda x, y: torch.linalg.inv(x) + y, [(3, 3), (3, 3)]),
}


def emit(name, dynamic=False):
    function, sizes = PROGRAMS[name]
    return of(function, *(torch.randn(size) for size in sizes), dynamic=dynamic)


def slots_of(step):
    """The slots that a step reads, and those that it defines."""
    match step:
        case AllocateSlot(slot):
            return set(), {slot}
        case Launch(_, slots) | Multiply(slots=slots):
            return set(slots), set()
        case FreeSlot(slot):
            return {slot}, set()
        case ViewSlot(slot, source):
            return {source}, {slot}
        case Call(_, arguments, _, results):
            given = {part.slot for part in arguments if isinstance(part, emitted.AtSlot)}
            return given, {result.slot for result in results}
    raise AssertionError(step)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_uses_what_it_has_made(name):
    """Each slot that a step or an output reads is an input, or was defined by an earlier step and not freed since."""
    program = emit(name)
    assert program.plan is not None, program.no_plan
    alive = set(range(len(program.plan.inputs) + len(program.plan.attributes)))
    for step in program.plan.steps:
        needed, new = slots_of(step)
        assert needed <= alive
        assert max(needed | new) < program.plan.slots
        alive = alive - needed if isinstance(step, FreeSlot) else alive | new
    assert {output.slot for output in program.plan.outputs} - {None} <= alive


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launch_names_a_kernel_and_gives_it_all_its_buffers(name):
    """A launch has its kernel's name and all its buffers, though equal kernels share a function."""
    program = emit(name)
    kernels = {kernel.name: kernel for kernel in program.kernels}
    launches = [step for step in program.plan.steps if isinstance(step, Launch)]
    for launch in launches:
        assert len(launch.slots) == len(kernels[launch.kernel].arguments)
        assert len(launch.sizes) == len(kernels[launch.kernel].sizes)
        assert launch.grid == -1, "the kernels are C++"
    assert {launch.kernel for launch in launches} == kernels.keys()
    assert {step.extern for step in program.plan.steps if isinstance(step, (Call, Multiply))} <= {
        extern.name for extern in program.externs
    }


def test_equal_kernels_share_a_function():
    """Equal kernels are one function in the text; each launch has its kernel's name."""
    one, other = emit("two equal kernels around a product").kernels
    assert one.function == other.function and one.name != other.name


def test_a_size_that_a_call_knows_is_a_value_of_the_plan():
    """A symbolic size is computed from earlier sizes, or read from an input."""
    plan = of(lambda x: (x + 1, x.shape[0] * 2), torch.randn(5, 3), dynamic=True).plan
    assert plan.values
    for at, value in enumerate(plan.values):
        if value.operation in ("argument", "size", "stride"):
            assert isinstance(value.first, int) and value.first < len(plan.inputs)
        else:
            numbers = [number for number in (value.first, value.second) if isinstance(number, RuntimeSize)]
            assert all(number.at < at for number in numbers)
    assert any(isinstance(output.value, RuntimeSize) for output in plan.outputs)


def test_what_is_emitted_is_frozen():
    """Plans are immutable: threads and calls share them, and they are keys of tables."""
    classes = [value for value in vars(emitted).values() if isinstance(value, type) and dataclasses.is_dataclass(value)
               and value.__module__ == emitted.__name__]  # fmt: skip
    assert len(classes) > 15
    for cls in classes:
        assert cls.__dataclass_params__.frozen and hasattr(cls, "__slots__"), cls
    assert hash(emit("one kernel").plan.steps)


def test_what_is_emitted_runs_without_sympy():
    """A process that loads a graph does not import the modules of the expression IR."""
    tree = ast.parse(Path(emitted.__file__).read_text())
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert set(imported) <= {
        "__future__", "dataclasses", "typing", "nbcompile.ir.profiler_ranges", "nbcompile.record.model"
    }  # fmt: skip
