"""Elements of a page: escaping and cutting."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from nbcompile.views.markup import Limits, clipped, code, highlighted, join, lines_of, listing, prose, row, tag, xml_tag

EVIL = "<script>alert(1)</script>\" onload='x' &amp;"


def test_texts_are_escaped_and_elements_are_not():
    """Texts are escaped, in elements and in attributes."""
    shown = str(tag("p", EVIL, tag("b", "bold"), title=EVIL))
    assert "<script" not in shown and "<b>bold</b>" in shown
    assert "&amp;amp;" in shown  # a text that looks escaped is escaped, too


@pytest.mark.parametrize(("written", "expected"), [
    (tag("p", None, [None, "a"], class_="x"), "<p class=x>a</p>"),
    (tag("details", open=True), "<details open></details>"),
    (tag("details", open=False, data_n=None), "<details></details>"),
    (tag("img", src="a b"), '<img src="a b">'),
    (xml_tag("rect", x=1), "<rect x='1'/>"),
])  # fmt: skip
def test_elements(written, expected):
    """Attributes that are None or False are omitted, and quotes are written only if needed."""
    assert str(written) == expected


def test_omissions_are_stated():
    """A cut list states the number of omitted items."""
    shown, more = Limits(rows=2).cut([1, 2, 3])
    assert shown == [1, 2] and "1 more" in str(more)
    assert Limits(rows=3).cut([1, 2, 3])[1] is None


def test_long_lines_are_cut_visibly():
    """Only long lines of a block are cut, each with a mark."""
    with lines_of(4):
        assert clipped("abcdef\nab") == "abcd …\nab"
        assert "abcd …" in str(tag("p", "abcdef"))
    assert clipped("abcdef") == "abcdef"


def test_code_in_prose_is_between_backticks():
    """Text between backticks is code, as in torch's messages; an unmatched backtick is no error."""
    assert str(join(prose("call `f(x)` twice"))) == f"call {code('f(x)')} twice"
    assert str(join(prose("a ` b"))) == f"a {code(' b')}"


def test_a_listing_keeps_every_line():
    """A token with line breaks keeps its lines; adjacent tokens with equal links and class are merged."""
    text = '"""a\nb"""\nx = 1\ny = 2'
    assert [str(Markup(line).striptags()) for line in highlighted(text)] == text.split("\n")
    linked = str(listing(text, nodes=lambda index: "n1" if index >= 2 else "", looks=lambda index: "r" * (index >= 2)))
    assert linked.count("data-n=n1") == 1


def test_a_number_and_its_unit_stay_together():
    """A table does not wrap between a number and its unit."""
    assert "393,216\N{NO-BREAK SPACE}B" in str(row("393,216 B"))
    assert "two words" in str(row("two words"))
