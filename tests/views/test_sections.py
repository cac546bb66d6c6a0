"""Names of the sections of a page."""

from __future__ import annotations

import pytest

from nbcompile.views import sections


def test_sections_come_in_the_order_of_the_page():
    """Sections have the page's order, whatever the order of the request; one name is a list of one."""
    assert sections.chosen(["kernels", "summary", "graph"]) == ("summary", "graph", "kernels")
    assert sections.chosen("guards") == ("guards",)


def test_without_a_wish_all_are_shown_but_questions():
    """The default is all sections except the questions, which come before their answers."""
    assert sections.chosen(None) == sections.USUAL
    assert set(sections.SECTIONS) - set(sections.USUAL) == {"predict"}


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    """An unknown section is an error that lists the known ones."""
    with pytest.raises(ValueError, match="graphs.*there are predict, summary"):
        sections.chosen(["graphs"])


def test_frame_sections_are_sections():
    """The sections of frames are sections, in the same order."""
    assert [name for name in sections.SECTIONS if name in sections.FRAME_SECTIONS] == list(sections.FRAME_SECTIONS)
