"""Texts of torch's structured trace: guards, reasons, stacks, bytecode."""

from __future__ import annotations

import pytest

from nbcompile.observe import trace_text
from nbcompile.record.model import Instruction, StackLine


def test_guards_have_the_source_of_their_manager():
    """A guard has its manager's source, or none; the user's line is parsed from its comment."""
    text = (
        "+- RootGuardManager\n"
        "| +- DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None\n"
        "| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x')\n"
        "| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, size=[3])  # return x + 1  # user.py:4 in f\n"
    )
    device, tensor = trace_text.guards("0/0", text)
    assert (device.id, device.kind, device.source) == ("0/0.g0", "DEFAULT_DEVICE", "")
    assert (tensor.kind, tensor.source) == ("TENSOR_MATCH", "L['x']")
    assert tensor.stack == (StackLine("user.py", 4, "f", "return x + 1"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0/1: tensor 'x' size mismatch at index 0. expected 3, actual 4", ("0/1", "L['x']", "3", "4")),
        ("0/0: L['n'] == 3", ("0/0", "L['n']", "", "")),
        ('["0/0: tensor \'L[\'x\']\' dtype mismatch. expected Float, actual Double"]', ("0/0", "L['x']", "Float", "Double")),
    ],
    ids=["size", "condition", "before 2.7"],
)  # fmt: skip
def test_reasons_of_a_recompilation(text, expected):
    """A reason has the entry, the source, and the expected and actual value."""
    (failed,) = trace_text.failed_guards(text)
    assert (failed.compile_id, failed.source, failed.expected, failed.actual) == expected


def test_a_traceback_is_a_stack():
    """A stack has each line with file and function, and the code if torch printed it."""
    text = '  File "a.py", line 3, in outer\n    inner(x)\n  File "b.py", line 7, in inner\n  File "c.py", line 9, in last\n    x + 1'
    assert trace_text.stack(text) == (
        StackLine("a.py", 3, "outer", "inner(x)"),
        StackLine("b.py", 7, "inner", ""),
        StackLine("c.py", 9, "last", "x + 1"),
    )


def test_bytecode_has_the_line_of_the_last_number():
    """An instruction without a line number has that of the one before; its argument is the readable one."""
    text = "  4           0 RESUME                   0\n              2 LOAD_FAST                0 (x)\n"
    assert trace_text.instructions(text) == (Instruction(0, "RESUME", "0", 4), Instruction(2, "LOAD_FAST", "x", 4))
