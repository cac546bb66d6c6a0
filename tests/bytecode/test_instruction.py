"""Tests for nbcompile.bytecode.instruction."""

from __future__ import annotations

import dataclasses

import pytest

from nbcompile.bytecode.instruction import Instruction, Label, Position, argument_text, label_indices


def test_labels_are_places() -> None:
    """Two labels are distinct; a label is found after its instruction moved."""
    first, second = Label(), Label()
    assert first != second
    code = [Instruction("NOP"), Instruction("NOP", label=second), Instruction("NOP", label=first)]
    assert label_indices(code) == {second: 1, first: 2}


def test_instructions_do_not_change() -> None:
    """An instruction is immutable."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Instruction("NOP").opcode = "POP_TOP"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Instruction("LOAD_FAST", 0, "x"), "x"),
        (Instruction("LOAD_CONST", 0, "x"), "'x'"),
        (Instruction("LOAD_CONST", 0, None), "None"),
        (Instruction("LOAD_CONST", 0, ("a", "b")), "('a', 'b')"),
        (Instruction("LOAD_FAST_LOAD_FAST", 1, ("a", "b")), "a, b"),
        (Instruction("JUMP_FORWARD", 4, 96, target=Label()), "to 96"),
        (Instruction("BINARY_OP", 13, "+="), "+="),
        (Instruction("POP_TOP"), ""),
    ],
)
def test_arguments_read_well(instruction: Instruction, text: str) -> None:
    """A listing shows the meaning of the argument."""
    assert argument_text(instruction) == text


def test_line() -> None:
    """The line is that of the position."""
    assert Instruction("NOP", position=Position(3, 4, 5, 6)).line == 3
