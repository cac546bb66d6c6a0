"""The verifier rejects programs that break the IR's rules; the printer shows programs; the evaluator is eager mode."""

from dataclasses import replace

import pytest
import torch

from nbcompile.ir import evaluate
from nbcompile.ir.expr import Apply, Constant, Load, Local, apply, cast
from nbcompile.ir.index import loop_variable
from nbcompile.ir.printer import print_expr, print_program, print_schedule
from nbcompile.ir.traversal import cost, substitute, walk
from nbcompile.ir.verify import InvalidIR, verify_expr, verify_program, verify_schedule
from tests.support.schedules import pointwise

I0, I1 = loop_variable(0), loop_variable(1)
X = Load("x", (I0, I1), torch.float32)


def planned():
    inputs = [torch.randn(3, 5), torch.randn(3, 5)]
    return inputs, pointwise(inputs, {"total": lambda x, y: apply("tanh", x + y) * 2.0})


def test_a_good_program_passes_and_computes():
    """Program and schedule pass the verifier, and both evaluate to eager's values."""
    inputs, schedule = planned()
    verify_schedule(schedule)
    (result,) = evaluate.run(schedule, inputs)
    torch.testing.assert_close(result, torch.tanh(inputs[0] + inputs[1]) * 2)


@pytest.mark.parametrize(
    "body",
    [
        Apply("add", (X, Constant(1, torch.int64)), torch.float32),
        Apply("lt", (X, X), torch.float32),
        Apply("sqrt", (Constant(4, torch.int64),), torch.int64),
        Apply("logical_and", (X, X), torch.bool),
    ],
    ids=lambda body: body.op,
)
def test_types_are_checked(body):
    """Mixed operands, wrong results and operations on the wrong kind are rejected."""
    with pytest.raises(InvalidIR):
        verify_expr(body, "here")


def test_names_are_checked():
    """A buffer that is defined twice, or never, is rejected."""
    _, schedule = planned()
    program = schedule.program
    with pytest.raises(InvalidIR):
        verify_program(replace(program, buffers=(*program.buffers, program.buffers[-1])))
    with pytest.raises(InvalidIR):
        verify_program(replace(program, buffers=program.buffers[1:]))


def test_text():
    """Bodies are printed as arithmetic; programs and schedules name every buffer."""
    assert print_expr(apply("tanh", X + 1.0)) == "tanh(x[i0, i1] + 1.0)"
    _, schedule = planned()
    assert "total" in print_program(schedule.program) and "kernel_total" in print_schedule(schedule)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.bool])
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int32, torch.bool])
def test_a_cast_there_and_back_is_nothing_where_all_numbers_survive(wide, narrow):
    """A cast there and back is removed only if all values survive: bfloat16 in float32, but not int32."""
    x = replace(X, dtype=narrow)
    folded = cast(cast(x, wide), narrow) == x
    if narrow.is_floating_point:
        numbers = torch.tensor([1 + torch.finfo(narrow).eps, torch.finfo(narrow).max], dtype=narrow)
    else:
        numbers = torch.tensor(
            [0, 1] if narrow == torch.bool else [torch.iinfo(narrow).min, torch.iinfo(narrow).max - 1]
        )
        numbers = numbers.to(narrow)
    assert folded == bool((numbers.to(wide).to(narrow) == numbers).all())


def test_small_algebra_of_bodies():
    """A cast to the same dtype is removed; substitution changes every index; cost counts operations."""
    assert cast(X, torch.float32) is X
    moved = substitute(X + X, {I0: I1, I1: I0})
    assert [node.index for node in walk(moved) if isinstance(node, Load)] == [(I1, I0)] * 2
    assert cost(X + X) == 1 and cost(Local("v", torch.float32)) == 0
