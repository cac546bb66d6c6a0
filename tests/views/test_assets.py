"""Styles and scripts of a page."""

from __future__ import annotations

from nbcompile.views import assets, html
from tests.views import sample_records as sample


def test_each_output_carries_only_what_its_sections_need():
    """A small graph has no tools, and a record without breaks has no styles for them."""
    page = html.render(sample.simple(), "graph")
    whole = len(str(assets.script(*html.ALL_PROGRAMS))) + len(str(assets.styles(*html.ALL_STYLES)))
    carried = sum(len(each) for each in (str(assets.styles()), str(assets.script())))
    assert carried < whole * 0.6
    assert str(assets.styles()) in page


def test_what_is_carried_can_be_taken_off():
    """A documentation page removes styles and scripts from each output, and has them once."""
    body = html.render(sample.simple(), "graph") * 2
    bare, count = assets.without_assets(body)
    assert count == 4 and str(assets.styles()) not in bare and "<script" not in bare
    assert bare.count('class="nbc') + bare.count("class=nbc") == 2


def test_comments_and_long_names_are_not_sent():
    """Comments are removed from styles; names for the whole page remain, because they have a hyphen."""
    text = assets.style_text(*html.ALL_STYLES)
    assert "/*" not in text and "\n" not in text
    assert text.count("{") == text.count("}")
