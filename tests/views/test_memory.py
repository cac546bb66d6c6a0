"""The memory plan as strips of launches."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from nbcompile.record import links
from nbcompile.record.model import CompiledGraph, Lifetime
from nbcompile.views import memory
from nbcompile.views.markup import Limits
from tests.views import sample_records


def plan(*lifetimes) -> CompiledGraph:
    return CompiledGraph("inductor", lifetimes=tuple(Lifetime(*each) for each in lifetimes))


def rows(compiled: CompiledGraph) -> list[list[str]]:
    return [line.split("  ")[1:] for line in memory.as_text(compiled)][1:]


PLAN = plan(("buf0", "4096", 1, 2), ("buf1", "4*s0", 2, 3), ("buf2", "4096", 3, 0, "buf0"), ("buf3", "8", 1, 1))


def test_a_strip_has_a_mark_for_each_launch():
    """A strip goes from the first to the last launch of a buffer; a result lives to the end. All have equal length."""
    assert rows(PLAN) == [
        ["buf0", "4,096 B", "■■·", "allocated"],
        ["buf1", "4*s0 B", "·■■", "allocated"],
        ["buf2", "4,096 B", "··■", "buf0's; returned"],
        ["buf3", "8 B", "■··", "allocated"],
    ]
    assert memory.saved(PLAN) == "4 buffers in 3 pieces of memory"


def test_each_graph_counts_its_own_launches():
    """Forward and backward count their launches from 1."""
    both = plan(("forward.buf0", "8", 1, 2), ("backward.buf0", "8", 1, 5), ("forward.buf1", "8", 2, 0))
    assert memory.launch_counts(both) == {"forward": 2, "backward": 5}
    assert [strip for _, _, strip, _ in rows(both)] == ["■■", "■■■■■", "·■"]


@pytest.mark.parametrize("launches", [memory.MOST_LAUNCHES, memory.MOST_LAUNCHES + 1])
def test_a_long_plan_is_in_numbers(launches):
    """A plan that is wider than a page is shown as numbers."""
    (first, _) = rows(plan(("a", "8", 2, 3), ("b", "8", launches, 0)))
    assert (first[2] == "2 to 3") is (launches > memory.MOST_LAUNCHES)


def test_the_table_says_what_the_text_says():
    """A single buffer has no table; a cut table states its length."""
    frame = sample_records.simple().frames[0]
    found = links.frame_links(frame)
    assert memory.render(plan(("a", "8", 1, 0)), found, Limits()) is None
    drawn = BeautifulSoup(memory.render(PLAN, found, Limits()), "html.parser")
    cells = [
        [cell.text.replace("\N{NO-BREAK SPACE}", " ") for cell in row.find_all(["th", "td"])]
        for row in drawn.select("tr")[1:]
    ]
    assert cells == rows(PLAN)
    cut = str(memory.render(PLAN, found, Limits(rows=3)))
    assert "1 more" in cut and "4 buffers in 3 pieces" in cut
