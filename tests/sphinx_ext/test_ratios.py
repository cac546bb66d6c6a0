"""A chart of ratios shows what the lines of the page say, and refuses what is no ratio."""

from __future__ import annotations

import re

import pytest

from nbcompile.sphinx_ext import ratios


def test_a_chart_of_ratios():
    """A bar for each line, to the left of 1 where it is below; its words are there for those who do not see it."""
    drawn = str(ratios.draw("ours / theirs", [("first call: cold", 0.1), ("memory", 1.5)]))
    bars = re.findall(r"<rect x='([\d.]+)' y='\d+' width='([\d.]+)' height='12'( class='lost')?", drawn)
    (one,) = re.findall(r"<line x1='([\d.]+)' x2='[\d.]+' y1='\d+' y2='\d+' class='one'", drawn)
    saved, lost = [(float(start), float(width)) for start, width, _ in bars]
    assert [bool(each) for *_, each in bars] == [False, True]
    assert sum(saved) == pytest.approx(float(one)) and lost[0] == pytest.approx(float(one))
    assert saved[1] > lost[1], "a tenth is farther from 1 than one and a half"
    assert "<title>ours / theirs. first call: cold: 0.1; memory: 1.5</title>" in drawn
    assert "#fff" not in drawn and "#000" not in drawn and "currentColor" in drawn


@pytest.mark.parametrize("line", ["words", "words: none", "words: 0", "words: -1", ": 0.5", "words: inf", "words: nan"])
def test_a_line_without_a_ratio_is_refused(line):
    """A build ends there rather than drawing something else."""
    with pytest.raises(ValueError, match=r"words|could not convert"):
        ratios.read(line)
    assert ratios.read("a: b: 0.5") == ("a: b", 0.5)


@pytest.mark.parametrize("found", [[], [("same", 1.0)], [("tiny", 1e-7), ("huge", 1e7)]])
def test_every_bar_is_within_the_drawing(found):
    """Also for ratios beyond every tick, for a ratio of exactly 1, whose bar is still seen, and for no lines at all."""
    drawn = str(ratios.draw("a / b", found))
    bars = [tuple(map(float, bar)) for bar in re.findall(r"<rect x='([-\d.]+)' y='\d+' width='([-\d.]+)'", drawn)]
    assert len(bars) == len(found)
    assert all(ratios.LEFT <= start and width >= 1 and start + width <= ratios.WIDTH for start, width in bars)


def test_words_of_a_chart_are_escaped():
    """They come from the page, and are text in the drawing."""
    drawn = str(ratios.draw("<a> & b", [("x < y", 0.5)]))
    assert "&lt;a&gt; &amp; b" in drawn and "x &lt; y" in drawn and "<a>" not in drawn
