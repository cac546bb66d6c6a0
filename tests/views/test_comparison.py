"""The comparison as text and HTML."""

from __future__ import annotations

from dataclasses import replace

from nbcompile.record.comparison import Comparison, Difference, EngineRun, Fact
from nbcompile.record.model import Record
from nbcompile.tools.compare import align
from nbcompile.views.comparison import ComparisonView, in_order, render, verdict
from tests.views import sample_records as sample


def comparison() -> Comparison:
    record = sample.save_break()
    other = replace(record, frames=(replace(record.frames[0], breaks=(), guards=()), *record.frames[1:]))
    return align.align("<f>", record, other, EngineRun(first_call_seconds=1.5), EngineRun(first_call_seconds=2.5))


def test_verdicts():
    """There is a sentence for nothing compiled, all equal, known differences only, and unknown ones."""
    whole = comparison()
    known = replace(whole, differences=(Difference("graph", "f", "a", "b", "a reason"),))
    assert verdict(replace(whole, ours=Record("f"), theirs=Record("f"))) == "Neither compiler compiled anything."
    assert verdict(replace(whole, differences=())).startswith("The same frames, graph breaks, graphs, ")
    assert verdict(known) == "1 difference, for known reasons."
    assert "without a known reason" in verdict(whole)


def test_unknown_differences_come_first():
    """Differences without a known reason are listed before the others."""
    both = (Difference("graph", "f", "a", "b", "a reason"), Difference("guards", "f", "a", "b"))
    assert [each.aspect for each in in_order(replace(comparison(), differences=both))] == ["guards", "graph"]


def test_html_has_both_columns_and_escapes():
    """The columns have the compilers' names; the user's text is escaped; the fragment has no id."""
    page = render(comparison())
    assert "&lt;f&gt;" in page
    assert "<f>" not in page
    assert "torch.compile</th>" in page
    assert " id=" not in page.partition("</style>")[2]


def test_text_has_the_numbers():
    """Each number has its unit, and unknown numbers are marked."""
    view = ComparisonView(replace(comparison(), facts=(Fact("guards", 3, None), Fact("first call", 1.5, 2.5, "s"))))
    lines = [line.split() for line in str(view).splitlines()]
    assert ["guards", "3", "unknown"] in lines
    assert ["first", "call", "1.5", "s", "2.5", "s"] in lines
