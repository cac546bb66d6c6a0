"""Artifacts of TORCH_LOGS from a record."""

from __future__ import annotations

import pytest

from nbcompile.observe.artifacts import ARTIFACTS, disassembly, guard_tree, output_code, tabulate
from nbcompile.record.model import Instruction
from nbcompile.support import log_names
from tests.views import sample_records as sample


def test_every_name_that_is_listed_is_printed():
    """Each listed name is printed from a finished frame's record, or live."""
    assert log_names.PRINTED.keys() <= ARTIFACTS.keys() | set(log_names.LIVE)


@pytest.mark.parametrize("name", sorted(ARTIFACTS))
def test_a_frame_that_has_nothing_of_it_prints_nothing(name):
    """A skipped frame without an artifact prints no empty text."""
    (frame, *_) = sample.skipped().frames
    assert all(text.strip() for text in ARTIFACTS[name](frame))


def test_a_graph_is_a_table():
    """The table has a header, a rule, and a row for each node, in columns."""
    graph = sample.simple_frame().graph
    head, rule, *rows = tabulate(graph).split("\n")
    assert head.split() == ["opcode", "name", "target", "args"] and set(rule) <= {"-", " "}
    assert len(rows) == len(graph.nodes)


def test_a_line_number_is_printed_at_its_first_instruction():
    """The line number is printed as by the module ``dis``."""
    lines = disassembly([Instruction(0, "RESUME", "", 3), Instruction(2, "NOP", "", 3), Instruction(4, "NOP", "", 4)])
    assert [line.split()[0] for line in lines.split("\n")] == ["3", "2", "4"]


def test_guards_are_below_the_value_that_they_check():
    """Each source appears once, above its guards."""
    text = guard_tree(sample.simple_frame().guards)
    assert text.startswith("GUARDS:\n\nTREE_GUARD_MANAGER:\n+- RootGuardManager")
    sources = [line for line in text.split("\n") if "GuardManager: source=" in line]
    assert len(sources) == len(set(sources)) > 0


def test_the_output_code_is_kernels_and_wrapper():
    """The text has the kernels and the wrapper, as in torch's log."""
    frame = sample.simple_frame()
    text = output_code(frame)
    assert frame.compiled_graph.wrapper.rstrip() in text
    assert all(kernel.source.rstrip() in text for kernel in frame.compiled_graph.kernels if kernel.source)
