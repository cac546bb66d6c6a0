"""Assertions on tensors and symbols: operators of the graph, not branches.

    assert x.sum() > 0, "text"      torch._assert_async(gt, "text"), and tracing continues as if it held

In torch: torch/_dynamo/symbolic_convert.py (generic_jump). Read next: handlers/control.py
"""

from __future__ import annotations

import torch

from nbcompile import config, torch_internals
from nbcompile.bytecode.instruction import Instruction
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable


def rewrite_assert(frame: Translator, jump: Instruction, condition: VariableTracker) -> bool:
    """Trace ``assert tensor`` (or a symbol) as an operator, not a branch; return False for any other jump."""
    # The instructions of ``assert x, "text"``; ``frame.pc`` is already after the jump.
    #     POP_JUMP_IF_TRUE     to the code after the assertion
    #     LOAD_ASSERTION_ERROR
    #     LOAD_CONST, CALL 0   with a message only
    #     RAISE_VARARGS
    following = frame.view.instructions[frame.pc : frame.pc + 3]
    if not config.rewrite_assert_with_torch_assert or not following or following[0].opcode != "LOAD_ASSERTION_ERROR":
        return False
    if isinstance(condition, SymbolicVariable):
        # A condition on symbols needs no operator: it becomes a guard, or an assertion at run time if it has an
        # unbacked symbol.
        holds = torch_internals.expect_true(condition.example)
        if holds:
            frame.pop_raw()
            frame.jump(jump.target)
        return holds
    message = "assertion error"
    if following[1].opcode != "RAISE_VARARGS":
        if following[2].opcode not in ("PRECALL", "CALL") or not isinstance(following[1].argval, str):
            return False  # a message that is computed
        message = following[1].argval
    # The operator fails when the graph runs, and tracing continues as if the assertion held. A jump on the tensor's
    # truth would break the graph.
    frame.interpreter.apply(torch._assert_async, [condition, ConstantVariable(message)])
    frame.pop_raw()
    frame.jump(jump.target)
    return True
