"""A plan is divided at operators that cannot be recorded; the parts together compute the whole."""

from __future__ import annotations

import linecache

import pytest
import torch

from nbcompile.codegen.named_plan import with_slot_names
from nbcompile.codegen.wrapper import opaque_arguments, write_wrapper
from nbcompile.gpu.division import DividedProgram, divide
from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    CaptureFacts,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    PlanOutput,
    TensorShape,
    Value,
    ViewSlot,
)
from nbcompile.runtime import program

aten = torch.ops.aten
SHAPE = TensorShape(torch.float32, (4, 8), (8, 1), 0)
ON_CPU = TensorShape(torch.float32, (4, 8), (8, 1), -1)
TARGETS = {"extern0": aten.nonzero.default, "extern1": aten.rand_like.default, "extern2": aten.multinomial.default}


def result(slot, shape=SHAPE):
    return (ExternResult((), slot, shape),)


def plan_of(middle, outputs=(PlanOutput(4),), attributes=(), **more) -> LaunchPlan:
    """x (slot 0), y (1); two kernels into 2; the middle, into 3; two kernels into 4."""
    steps = (
        AllocateSlot(2, SHAPE), Launch("a", (0, 2), (), 1), Launch("b", (2, 2), (), 1), middle,
        AllocateSlot(4, SHAPE), Launch("c", (3, 1, 4), (), 1), FreeSlot(3), Launch("d", (2, 4), (), 1), FreeSlot(2),
    )  # fmt: skip
    return LaunchPlan((SHAPE, SHAPE), 8, steps, outputs, attributes, gpu=0, **more)


WRITES = (("a", (1,)), ("b", (1,)), ("c", (2,)), ("d", (1,)))
FACTS = CaptureFacts("an obstacle", (), ("extern0",), True, WRITES, ())
MIDDLE = Call("extern0", (AtSlot(2),), (), result(3))


def test_a_call_divides_a_graph_in_three():
    """Each part takes the arguments in their positions, then tensors of earlier parts; unused ones are None."""
    first, middle, last = divide(plan_of(MIDDLE), TARGETS, FACTS)
    assert [part.drawn is not None for part in (first, middle, last)] == [True, False, True]
    assert (first.taken, first.given) == ((), (2,))
    assert (middle.taken, middle.given) == ((2,), (3,))
    assert (last.taken, last.given) == ((2, 3), (4,))
    assert [part.plan.inputs for part in (first, middle, last)] == [
        (SHAPE, None), (None, None, SHAPE), (None, SHAPE, SHAPE, SHAPE),
    ]  # fmt: skip
    assert not any(isinstance(step, FreeSlot) for part in (first, middle, last) for step in part.plan.steps)


def test_what_is_on_the_cpu_is_launched():
    """A call with a result on the CPU is launched, and so are its readers."""
    call = Call("extern1", (AtSlot(2),), (), result(3, ON_CPU))
    parts = divide(plan_of(call), TARGETS, FACTS)
    assert [part.drawn is not None for part in parts] == [True, False, False]  # "c" reads what is on the CPU


def test_random_numbers_that_can_be_drawn_before_stay_in_their_part():
    """``rand_like`` is drawn before the graph; a random operator that reads a tensor's elements is launched."""
    drawn = divide(plan_of(Call("extern1", (AtSlot(0),), (), result(3))), TARGETS, FACTS)
    assert drawn == ()  # one part: the graph is not divided
    categories = divide(plan_of(Call("extern2", (AtSlot(2), 3), (), result(3))), TARGETS, FACTS)
    assert [part.drawn is not None for part in categories] == [True, False, True]


def test_a_part_says_what_it_writes():
    """A part lists the arguments that its kernels mutate, also through a view, and those that its calls mutate."""
    facts = CaptureFacts("an obstacle", ((1, "y.add_(1)"),), ("extern0",), True, (*WRITES[:2], ("c", (1, 2))), ())
    plan = plan_of(MIDDLE)
    first, _, last = divide(plan, TARGETS, facts)
    assert first.written == ()
    assert last.written == ((1, "y.add_(1)"), (2, ""))  # "d" is unknown, so all its pointers count as mutated
    view = (ViewSlot(5, 2, ((8, 4), (1, 8), 0)), Launch("c", (3, 1, 5), (), 1))
    steps = (*plan.steps[:5], *view, *plan.steps[5:])
    assert divide(LaunchPlan(plan.inputs, 8, steps, plan.outputs, gpu=0), TARGETS, FACTS)[2].written == ((2, ""),)


@pytest.mark.parametrize(
    ("plan", "facts"),
    [
        (plan_of(MIDDLE, values=(Value("size", 0, 0),)), FACTS),
        (plan_of(MIDDLE), CaptureFacts("an obstacle", (), ("extern0",), False, WRITES)),
        (plan_of(MIDDLE), CaptureFacts("an obstacle", (), (), True, WRITES)),
        (LaunchPlan((SHAPE, SHAPE, SHAPE), 4, (Launch("a", (0, 0), (), 1), MIDDLE), (PlanOutput(0),), gpu=0), FACTS),
    ],
    ids=["a size that a call knows", "an unknown obstacle", "no call is apart", "one kernel beside it"],
)
def test_some_graphs_are_not_divided(plan, facts):
    """Graphs with symbolic sizes, unknown obstacles or too few kernels are not divided."""
    assert divide(plan, TARGETS, facts) == ()


def text_of(plan):
    """The text of a part."""
    return write_wrapper(with_slot_names(plan, frozenset(), {name: str(target) for name, target in TARGETS.items()}))


def python_of(plan, functions):
    """The function of a part's text."""
    text, constants = text_of(plan), opaque_arguments(plan)
    linecache.cache["<part>"] = (len(text), None, text.splitlines(keepends=True), "<part>")
    namespace = {
        "torch": torch, "expect": program.expect, "adopt": program.adopt, "view_of": program.view,
        "empty_strided": torch.empty_strided, "constant": constants.__getitem__, **functions,
    }  # fmt: skip
    exec(text, namespace)
    return namespace["call"]


def test_the_text_of_a_plan_is_the_plan():
    """The text computes the plan's results on the CPU: kernels, calls, constants, views, and outputs of each kind."""
    cpu = TensorShape(torch.float32, (4, 8), (8, 1), -1)
    steps = (
        AllocateSlot(2, cpu), Launch("a", (0, 2), (), 1),
        Call("extern0", (AtSlot(2), [1, None]), (("dtype", torch.float64), ("generator", torch.Generator())), result(3, TensorShape(torch.float64, (4, 8), (8, 1)))),
        ViewSlot(5, 2, ((8, 4), (1, 8), 0)), AllocateSlot(4, TensorShape(torch.float32, (8, 4), (4, 1))),
        Launch("b", (5, 4), (), 1), FreeSlot(5),
    )  # fmt: skip
    outputs = (PlanOutput(3), PlanOutput(4, ((4, 8), (1, 4), 0)), PlanOutput(0), PlanOutput(None, value=7))
    plan = LaunchPlan((cpu,), 6, steps, outputs)
    functions = {
        "a": lambda x, out: out.copy_(x + 1), "b": lambda x, out: out.copy_(x * 2),
        "extern0_target": lambda x, numbers, dtype, generator: x.to(dtype) * numbers[0],
    }  # fmt: skip
    whole = python_of(plan, functions)
    assert "constant(" in text_of(plan)
    x = torch.randn(4, 8)
    expected = ((x + 1).double(), (x + 1) * 2, x, 7)
    torch.testing.assert_close(whole([x]), expected)


def test_a_divided_program_hands_tensors_on():
    """Each part gets the caller's arguments and tensors of earlier parts; unused ones are freed."""
    plan = plan_of(MIDDLE, (PlanOutput(4), PlanOutput(2), PlanOutput(1), PlanOutput(None, value=3)))
    parts = divide(plan, TARGETS, FACTS)
    seen = []

    def first(given):
        seen.append(len(given))
        return (given[0] + 1,)

    def middle(given):
        seen.append(len(given))
        return (given[2] * 2,)

    def last(given):
        seen.append(len(given))
        return (given[2] + given[3],)

    divided = DividedProgram(plan, tuple(zip(parts, (first, middle, last), strict=True)))
    x, y = torch.ones(4, 8), torch.zeros(4, 8)
    inputs = [x, y]
    found = divided(inputs)
    assert inputs == []
    assert seen == [2, 3, 4]
    torch.testing.assert_close(found[:2], ((x + 1) * 3, x + 1))
    assert found[2] is y
    assert found[3] == 3
    torch.testing.assert_close(divided.positional(x, y)[0], found[0])
