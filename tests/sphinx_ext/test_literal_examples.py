"""Examples in module docstrings are shown literally."""

from __future__ import annotations

import docutils.core
import docutils.nodes
import pytest

from nbcompile import api
from nbcompile.sphinx_ext.literal_examples import keep_examples, with_literal_blocks


def literal_blocks(lines: list[str]) -> list[str]:
    document = docutils.core.publish_doctree("\n".join(lines))
    return [node.astext() for node in document.findall(docutils.nodes.literal_block)]


def test_an_indented_block_is_literal():
    """The lines of an indented block keep their spaces; a blank line does not end it."""
    lines = ["Title.", "", "    @compile", "    def f(x): ...", "", "    f(x)      runs", "", "Text."]
    assert literal_blocks(with_literal_blocks(lines)) == ["@compile\ndef f(x): ...\n\nf(x)      runs"]


@pytest.mark.parametrize(
    "lines",
    [
        ["Text::", "", "    code"],
        [".. note::", "", "    text of the note"],
        ["- item", "", "    its second paragraph"],
        ["Text", "    right below, a definition"],
        ["Text."],
        [],
    ],
)
def test_other_indented_text_stays(lines):
    """A literal block of its own, and text of a directive, a list item or a term, are unchanged."""
    assert with_literal_blocks(lines) == lines


@pytest.mark.parametrize(("what", "blocks"), [("module", 1), ("function", 0)])
def test_docstrings_of_modules_alone_are_changed(what, blocks):
    """Docstrings of functions are unchanged: napoleon reads their indented sections."""
    lines = (api.__doc__ or "").splitlines()
    keep_examples(None, what, "nbcompile.api", api, None, lines)
    assert len(literal_blocks([line for line in lines if ":class:" not in line])) == blocks
