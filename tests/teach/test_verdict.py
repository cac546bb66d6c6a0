"""A verdict in text and in a notebook."""

from __future__ import annotations

import pytest

from nbcompile.teach.verdict import Verdict
from tests.views import sample_records


@pytest.mark.parametrize(("accepted", "sign", "words"), [(True, "✓", "Accepted"), (False, "✗", "Not yet")])
def test_text_and_html_say_the_same(accepted, sign, words):
    """A verdict has a sign and words, so that the colour is not needed; an answer's output is escaped."""
    verdict = Verdict("one-graph-1", accepted, "it prints '<b>' and `x < y`")
    shown = verdict._repr_mimebundle_(include=None, exclude=None)
    assert bool(verdict) is accepted
    assert shown["text/plain"] == repr(verdict) == f"{sign} one-graph-1: it prints '<b>' and `x < y`"
    assert f"{sign} {words}" in shown["text/html"]
    assert "It prints &#x27;&lt;b&gt;&#x27; and <code>x &lt; y</code>" in shown["text/html"]


def test_a_picture_is_there_where_something_was_compiled():
    """An answer that was rejected before its compile has no picture; an empty sentence is shown, too."""
    record = sample_records.simple()
    assert Verdict("a", True, "right", record).explanation.record is record
    assert Verdict("a", False, "").explanation is None
    assert "text/html" in Verdict("a", False, "")._repr_mimebundle_()
