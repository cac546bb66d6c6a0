"""A chart of ratios has the lines of the page, and rejects a line without a ratio."""

from __future__ import annotations

import re

import pytest

from nbcompile.sphinx_ext import ratios


def test_a_chart_of_ratios():
    """Each line has a bar, left of 1 if it is below 1, and an alternative text."""
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
def test_a_line_without_a_ratio_is_rejected(line):
    """A line without a ratio ends the build."""
    with pytest.raises(ValueError, match=r"words|could not convert"):
        ratios.read(line)
    assert ratios.read("a: b: 0.5") == ("a: b", 0.5)


@pytest.mark.parametrize("found", [[], [("same", 1.0)], [("tiny", 1e-7), ("huge", 1e7)]])
def test_every_bar_is_within_the_drawing(found):
    """Bars beyond all ticks, a bar for the ratio 1, and a chart without lines are drawn."""
    drawn = str(ratios.draw("a / b", found))
    bars = [tuple(map(float, bar)) for bar in re.findall(r"<rect x='([-\d.]+)' y='\d+' width='([-\d.]+)'", drawn)]
    assert len(bars) == len(found)
    assert all(ratios.LEFT <= start and width >= 1 and start + width <= ratios.WIDTH for start, width in bars)


def test_words_of_a_chart_are_escaped():
    """The page's words are escaped in the drawing."""
    drawn = str(ratios.draw("<a> & b", [("x < y", 0.5)]))
    assert "&lt;a&gt; &amp; b" in drawn and "x &lt; y" in drawn and "<a>" not in drawn
