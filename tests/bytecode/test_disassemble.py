"""Tests for nbcompile.bytecode.disassemble."""

from __future__ import annotations

import dis
import sys
import types

from nbcompile.bytecode.disassemble import disassemble, exception_table
from nbcompile.bytecode.instruction import label_indices


def loop(items: list[int]) -> int:
    total = 0
    for item in items:
        if item < 0:
            continue
        try:
            total += item
        except TypeError:
            total -= 1
    return total


def test_agrees_with_dis() -> None:
    """Opcodes, offsets, arguments, their meanings and positions are those of ``dis``."""
    expected = [each for each in dis.get_instructions(loop) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    read = disassemble(loop.__code__)
    assert [each.opcode for each in read] == [each.opname for each in expected]
    assert [each.offset for each in read] == [each.offset for each in expected]
    assert [each.position for each in read] == [tuple(each.positions) for each in expected]
    for ours, theirs in zip(read, expected, strict=True):
        assert ours.arg == theirs.arg, ours
        if ours.opcode not in ("BINARY_OP",):
            assert ours.argval == theirs.argval, ours


def test_jumps_and_handlers_point_at_labels() -> None:
    """Every target has an instruction, at the offset in ``argval``."""
    read = disassemble(loop.__code__)
    places = label_indices(read)
    jumps = [each for each in read if each.target is not None]
    assert jumps
    assert all(read[places[each.target]].offset == each.argval for each in jumps if each.target)
    handlers = {read[places[each.protection.target]].offset for each in read if each.protection}
    assert handlers == {entry.target for entry in exception_table(loop.__code__)}


def test_operators_are_spelled_out() -> None:
    """Operators and comparisons are read as text."""

    def compute(a: int, b: int) -> bool:
        a //= b
        return a**b >= a @ b

    read = disassemble(compute.__code__)
    assert [each.argval for each in read if each.opcode == "BINARY_OP"] == ["//=", "**", "@"]
    assert [each.argval for each in read if each.opcode == "COMPARE_OP"] == [">="]


def test_extended_arguments_are_folded() -> None:
    """An index above 255 is one instruction, at the offset of its first prefix."""
    source = "def f():\n" + "".join(f"    x = {i}.5\n" for i in range(300))
    scope: dict[str, object] = {}
    exec(source, scope)
    function = scope["f"]
    assert isinstance(function, types.FunctionType)
    read = disassemble(function.__code__)
    assert "EXTENDED_ARG" not in {each.opcode for each in read}
    loads = [each for each in read if each.opcode == "LOAD_CONST"][:300]
    assert [each.argval for each in loads] == [i + 0.5 for i in range(300)]
    assert function.__code__.co_code[loads[-1].offset] == dis.EXTENDED_ARG


def test_a_cell_differs_from_its_content() -> None:
    """A load of a cell for a closure is LOAD_CLOSURE on every version, also for an argument."""

    def outer(x: int, items: list[int]) -> object:
        y = 2
        first = lambda: x + y  # noqa: E731
        return [x for x in items], first

    read = [each for each in disassemble(outer.__code__) if each.opcode == "LOAD_CLOSURE"]
    assert [each.argval for each in read] == ["x", "y"]


def test_a_name_with_two_slots() -> None:
    """A free variable and a comprehension's local with the same name are distinguished."""

    def outer() -> object:
        x = 1

        def inner(items: list[int]) -> object:
            a = x
            b = [x for x in items]
            return a, b, lambda: x

        return inner

    code = next(each for each in outer.__code__.co_consts if isinstance(each, types.CodeType))
    if sys.version_info >= (3, 12):
        assert "x" in code.co_varnames
    assert [each.argval for each in disassemble(code) if each.opcode == "LOAD_CLOSURE"] == ["x"]
