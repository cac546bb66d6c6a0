"""Pages of kinds of graph breaks."""

from __future__ import annotations

import pytest

from nbcompile.tools import explain
from nbcompile.tracing import breaks


def test_every_kind_is_listed_once_by_its_id():
    """Each kind is listed once; the notebook completes the names, and each has a page in the documentation."""
    kinds = explain.kinds()
    assert [kind.id for kind in kinds] == sorted(breaks.KINDS)


@pytest.mark.parametrize("name", ["NB5", "qqq", "NB9999", ""])
def test_an_unknown_kind_is_an_error_that_says_what_there_is(name):
    """The error for an unknown kind suggests a near one."""
    with pytest.raises(ValueError, match="NB0001 to NB"):
        explain.page(name)


def test_a_number_is_enough_for_a_guess():
    """``NB5`` and ``5`` mean ``NB0005``."""
    for name in ("NB5", "5"):
        with pytest.raises(ValueError, match="Did you mean NB0005"):
            explain.page(name)


def test_both_forms_say_the_same():
    """Terminal text and Markdown have the same content."""
    parts = (explain.Part("title", "NB0: a title"), explain.Part("heading", "Why"), explain.Part("items", "one\ntwo"),
             explain.Part("code", "x = 1"))  # fmt: skip
    text, markdown = explain.as_text(parts), explain.as_markdown(parts)
    for said in ("NB0: a title", "Why", "- one", "- two", "x = 1"):
        assert said in text and said in markdown
