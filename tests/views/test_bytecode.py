"""Bytecode before and after, as ``dis`` writes it."""

from __future__ import annotations

import dis
from dataclasses import replace

from bs4 import BeautifulSoup

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.record import links
from nbcompile.record.model import Instruction
from nbcompile.views import bytecode
from nbcompile.views.markup import Limits
from tests.views import sample_records


def frame(*instructions: Instruction, residual: tuple[Instruction, ...] = ()):
    return replace(sample_records.simple().frames[0], instructions=instructions, residual_instructions=residual)


def test_a_line_is_named_where_it_begins():
    """The line number is at the first instruction of each line, also if the line appears again after another one."""
    shown = [Instruction(at * 2, "NOP", "", line) for at, line in enumerate((3, 3, 4, 0, 4, 3))]
    numbers = [line[:3].strip() for line in list(bytecode.as_text(frame(*shown)))[1:]]
    assert numbers == ["3", "", "4", "", "4", "3"]


def test_an_argument_is_one_line():
    """An argument is one line of the listing, whatever the constant contains."""
    shown = (Instruction(0, "LOAD_CONST", "'a\nb\u2028c'", 1), Instruction(2, "RETURN_VALUE", "", 1))
    text = list(bytecode.as_text(frame(*shown)))
    assert len(text) == 3 and "RETURN_VALUE" in text[2]
    assert text[0] == "before: 2 instructions"


def test_arguments_begin_in_one_column():
    """Arguments are aligned after the longest opcode of the listing."""
    text = list(bytecode.as_text(frame(Instruction(0, "POP", "x", 1), Instruction(2, "BINARY_SUBSCR", "y", 1))))[1:]
    assert text[0].index(" x") == text[1].index(" y")


def test_both_are_shown_where_both_are_known():
    """Both listings have a pane in the page, and a title in the text."""
    given, other = (Instruction(0, "NOP", "", 1),), (Instruction(0, "POP_TOP", "", 0),)
    both = frame(*given, residual=other)
    page = BeautifulSoup(str(bytecode.render(both, links.frame_links(both), Limits())), "html.parser")
    assert [pane.find("small").text for pane in page.select(".n-pair > div")] == ["before", "after"]
    assert [line for line in bytecode.as_text(both) if line.endswith("instruction")] == [
        "before: 1 instruction",
        "after: 1 instruction",
    ]
    alone = frame(*given)
    page = BeautifulSoup(str(bytecode.render(alone, links.frame_links(alone), Limits())), "html.parser")
    assert len(page.select(".n-pair > div")) == 1
    assert bytecode.render(frame(), links.frame_links(frame()), Limits()) is None


def test_a_real_function_has_the_offsets_of_dis():
    """The offsets of a real function are those of dis."""

    def f(x):
        return x + 1

    shown = [
        Instruction(one.offset, one.opname, one.argrepr, one.positions.lineno or 0) for one in dis.get_instructions(f)
    ]
    offsets = [int(line[3:].split()[0]) for line in list(bytecode.as_text(frame(*shown)))[1:]]
    assert offsets == [one.offset for one in dis.get_instructions(f)] and len(disassemble(f.__code__)) <= len(offsets)
