"""The instructions before the body of a resume function: cells, renamed variables, then the operand stack."""

from __future__ import annotations

import inspect

import pytest

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.instruction import Label, Position, Protection
from nbcompile.rewriting.resume_layout import ResumeLayout, ResumeTarget, Slot
from nbcompile.rewriting.resume_prologue import prologue_of, protection_at

LINE = Position(7, 7, 0, 0)


def plain(x):
    """A function without cells."""
    return x


def yielding(x):
    """A generator."""
    yield x


def written(function=plain, slots=(), operands=(), *, free=(), new=(), arguments=(), moved=None, protections=None):
    """The prologue, as pairs of opcode and argument, and the instructions themselves."""
    point = ResumeTarget(function.__code__, 0, tuple(slots), (), line=7, function=function.__name__)
    layout = ResumeLayout(tuple(operands), tuple(arguments), (), tuple(new), tuple(free), moved or {})
    instructions = list(prologue_of(point, layout, protections or [None] * (len(slots) + 1), LINE))
    return [(each.opcode, each.argval if each.argval is not None else each.arg) for each in instructions], instructions


def test_cells_come_before_the_frame_begins():
    """The order is that of CPython's compiler: free variables are copied, new cells created, then RESUME."""
    assert written(free=("a", "b"), new=("c",))[0] == [("COPY_FREE_VARS", 2), ("MAKE_CELL", "c"), ("RESUME", 0)]
    assert written()[0] == [("RESUME", 0)]


def test_a_generator_is_returned_before_it_runs():
    """A call of a generator's resume function returns a generator."""
    opcodes = [opcode for opcode, _ in written(yielding)[0]]
    assert yielding.__code__.co_flags & inspect.CO_GENERATOR
    assert opcodes == ["RETURN_GENERATOR", "POP_TOP", "RESUME"]


def test_variables_under_other_names_move_to_their_slots():
    """A free variable's cell is stored; an argument is stored and deleted under its other name."""
    moved = {"cell": "___cell", "plain": "___plain", "new": "___new"}
    assert written(free=("cell",), arguments=("___plain",), moved=moved)[0] == [
        ("COPY_FREE_VARS", 1), ("RESUME", 0),
        ("LOAD_CLOSURE", "___cell"), ("STORE_FAST", "cell"),
        ("LOAD_FAST", "___plain"), ("STORE_FAST", "plain"), ("DELETE_FAST", "___plain"),
    ]  # fmt: skip


SLOTS = {
    Slot.VALUE: (1, ["LOAD_FAST", "DELETE_FAST"]),
    Slot.NULL: (0, ["PUSH_NULL"]),
    Slot.EXIT: (1, ["LOAD_FAST", "DELETE_FAST", "BEFORE_WITH", "POP_TOP"]),
    Slot.HANDLED: (1, ["LOAD_FAST", "DELETE_FAST", "PUSH_EXC_INFO", "POP_TOP"]),
    Slot.LASTI: (0, ["LOAD_CONST"]),
}


@pytest.mark.parametrize("slot", SLOTS)
def test_each_slot_is_pushed_as_it_was(slot):
    """The argument of a slot is deleted at once, so the frame does not keep the stack's values alive."""
    count, expected = SLOTS[slot]
    names = [f"___stack{number}" for number in range(count)]
    found, _ = written(slots=[slot], operands=names)
    assert [opcode for opcode, _ in found[1:]] == expected
    assert [name for opcode, name in found if opcode == "DELETE_FAST"] == names


def test_a_callee_is_called_with_the_tuple_of_its_arguments():
    """NULL is next to the function, both arguments are deleted, and CALL_FUNCTION_EX leaves one value."""
    found, _ = written(slots=[Slot.CALL], operands=["function", "arguments"])
    assert sorted(found[1:4], key=str) == [("LOAD_FAST", "arguments"), ("LOAD_FAST", "function"), ("PUSH_NULL", None)]
    assert found[4:] == [("DELETE_FAST", "function"), ("DELETE_FAST", "arguments"), ("CALL_FUNCTION_EX", 0)]


def test_slots_take_their_arguments_bottom_first():
    """A slot without a value takes no argument."""
    found, _ = written(slots=[Slot.VALUE, Slot.NULL, Slot.VALUE], operands=["___stack0", "___stack1"])
    assert [name for opcode, name in found if opcode in ("LOAD_FAST", "PUSH_NULL")] == ["___stack0", None, "___stack1"]


def test_a_block_protects_what_follows_its_entry():
    """The manager is entered outside its own block; the block begins after BEFORE_WITH."""
    outside, inside = Protection(Label(), 0, False), Protection(Label(), 1, True)
    _, instructions = written(
        slots=[Slot.EXIT, Slot.VALUE], operands=["manager", "value"], protections=[outside, inside, inside]
    )
    found = [(each.opcode, each.protection) for each in instructions if each.opcode in ("BEFORE_WITH", "POP_TOP")]
    assert found == [("BEFORE_WITH", outside), ("POP_TOP", inside)]
    assert all(each.position == LINE for each in instructions if each.opcode not in ("COPY_FREE_VARS", "MAKE_CELL"))


def managing(first, second, x):
    """Two blocks, and a call in the inner one."""
    with first:
        with second:  # noqa: SIM117
            x.call()


def test_an_instruction_is_protected_by_the_block_at_its_height():
    """The inner handler protects the call if both exits are on the stack; without exits nothing does."""
    code = disassemble(managing.__code__)
    call = next(at for at, each in enumerate(code) if each.argval == "call")
    inner, outer, none = (protection_at(code, call, height) for height in (2, 1, 0))
    assert (inner.depth, outer.depth, none) == (2, 1, None) and inner.target is not outer.target
