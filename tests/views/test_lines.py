"""Prose as lines of text."""

from __future__ import annotations

import textwrap

from hypothesis import given, strategies as st

from nbcompile.views import lines

WORDS = st.text(st.sampled_from("ab-. \t\u00a0\u00b7"), max_size=90)


@given(st.lists(WORDS, max_size=3), st.sampled_from(["", "  ", "    "]), st.sampled_from(["", "      "]))
def test_short_lines_are_what_textwrap_makes_of_them(parts, first, rest):
    """Texts of one line equal textwrap's result, spaces, tabs and empty lines included, without calling it."""
    wanted = []
    for part in parts:
        wanted += textwrap.wrap(
            part, lines.WIDTH - 4, initial_indent=rest if wanted else first, subsequent_indent=rest,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    assert lines.wrapped("\n".join(parts), first, rest) == wanted
