"""The record of the steps of a trace."""

from __future__ import annotations

import torch

from nbcompile.tracing.variables.constant import ConstantVariable
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_steps_are_recorded_only_for_who_wants_them():
    """Steps are recorded only on request, each with its function and its opcode."""
    translator, interpreter = frame_of(program, 4)
    translator.run()
    assert interpreter.step_record.steps is None and interpreter.step_record.last_steps() == ()
    translator, interpreter = frame_of(program, 4)
    interpreter.step_record.steps = []
    translator.run()
    assert len(interpreter.step_record.steps) == translator.steps
    assert {step.function for step in interpreter.step_record.steps} == {"program"}
    assert interpreter.step_record.steps[-1].opcode == "RETURN_VALUE"


def test_a_step_has_the_nodes_that_it_added():
    """A node belongs to the step during which it was added, and to no other step."""
    translator, interpreter = frame_of(program, 4)
    interpreter.step_record.steps = []
    translator.step()
    interpreter.apply(torch.zeros, [ConstantVariable(3)])
    interpreter.step_record.note_effects()
    assert interpreter.step_record.steps[-1].nodes == ("zeros = zeros(3)",)
    translator.step()
    interpreter.step_record.note_effects()
    assert interpreter.step_record.steps[-1].nodes == ()
