"""Steps of a plan are encoded as tuples for the launcher in C, which rejects invalid steps.

Read next: nbcompile/runtime/plan_encoding.py
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nbcompile.ir.emitted import AtSlot, Call, ExternResult, LaunchPlan, PlanOutput, RuntimeSize, TensorShape, Value
from nbcompile.runtime import effects, plan_encoding
from nbcompile.runtime.launcher import dtype_code, extension_module
from tests.support.targets import compiler

aten, prims = torch.ops.aten, torch.ops.prims


def test_outputs_and_values() -> None:
    """An output is a slot, a view of one, or a value; a symbolic size is a tuple."""
    assert plan_encoding.output(PlanOutput(3)) == (3, None)
    assert plan_encoding.output(PlanOutput(3, ((2, RuntimeSize(0)), (1, 1), 4))) == (3, ((2, (0,)), (1, 1), (4,)))
    assert plan_encoding.output(PlanOutput(None, value=RuntimeSize(1))) == (None, (1,))
    assert plan_encoding.output(PlanOutput(None, value=2.5)) == (None, 2.5)
    assert plan_encoding.value(Value("mul", 2, RuntimeSize(0))) == (4, 2, (0,))


def shape() -> TensorShape:
    return TensorShape(torch.int32, (), ())


def with_tokens(returned: int) -> tuple[LaunchPlan, dict[str, Any]]:
    """A plan that creates a token in slot 1, passes it to a check of slot 0, and sinks the check's token, slot 2."""
    targets = {
        "made": prims._make_token.default,
        "check": effects.with_effects,
        "end": prims._sink_tokens.default,
        "other": aten.max.dim,
    }
    check = (AtSlot(1), aten._linalg_check_errors.default, AtSlot(0), "name")
    steps = (
        Call("made", (), (), (ExternResult((), 1, shape()),)),
        Call("check", check, (("is_matrix", True),), (ExternResult((0,), 2, shape()),)),
        Call("end", ([AtSlot(2)],), (), ()),
        Call("other", (AtSlot(0), 0), (), (ExternResult((1,), 3, shape()),)),
    )
    return LaunchPlan((shape(),), 4, steps, (PlanOutput(returned),)), targets


def test_a_plan_has_no_tokens() -> None:
    """Calls with an effect become the operators themselves, in order, without tokens."""
    plan, targets = with_tokens(3)
    steps, operators = effects.without_tokens(plan, targets)
    assert steps == (Call("check", (AtSlot(0), "name"), (("is_matrix", True),), ()), plan.steps[3])
    assert operators["check"] is aten._linalg_check_errors.default
    assert effects.does_nothing_for_zeros(operators["check"], steps[0]) == 0
    assert effects.does_nothing_for_zeros(operators["other"], steps[1]) is None


@pytest.mark.parametrize("token", [1, 2])
def test_a_token_that_is_returned_stays(token: int) -> None:
    """A plan that returns a token is unchanged."""
    plan, targets = with_tokens(token)
    assert effects.without_tokens(plan, targets) == (plan.steps, targets)


def test_results_lose_the_token() -> None:
    """The result indices of a call without a token are those of the operator."""
    one = Call("x", (AtSlot(1), aten.sin.default, AtSlot(0)), (), (ExternResult((1,), 3, shape()),))
    several = Call("x", (AtSlot(1), aten.max.dim, AtSlot(0), 0), (), (ExternResult((2,), 3, shape()),))
    made = with_tokens(3)[0].steps[0]
    for step, path in ((one, ()), (several, (1,))):
        plan = LaunchPlan((shape(),), 4, (made, step), (PlanOutput(3),))
        targets = {"made": prims._make_token.default, "x": effects.with_effects}
        (found,), _ = effects.without_tokens(plan, targets)
        assert isinstance(found, Call)
        assert [result.path for result in found.results] == [path]


def test_programs_are_checked() -> None:
    """The launcher rejects an encoding with an invalid slot or a missing list."""
    extension = extension_module(compiler())
    number = dtype_code(extension, torch.float32)
    result = (1, (), number, (2,), (1,), print)

    def made(codes: tuple[int, ...], returns: int = 1) -> Any:
        step = (4, aten.sin.default._op, ((1, 0),), None, (result,), ("aten::sin", "", returns, codes), None)
        inputs = ((number, (2,), (1,)),)
        return extension.make_program((inputs, (step,), ((1, None),), ()), 2, True, (), print, print, None)

    assert torch.equal(made((1, 0))([torch.ones(2)]), torch.ones(2).sin())
    for codes in ((1, 2), (1, -1), (1,), (6, 0), (-1, 0), (2, -1), (2, 2, 0, 1), (1, 0) * 33):
        with pytest.raises(ValueError, match="dispatcher"):
            made(codes)
    for returns in (-1, 2, 33):
        with pytest.raises(ValueError, match="dispatcher"):
            made((1, 0), returns)
