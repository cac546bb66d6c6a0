"""nbcompile/tools/slides.py: a notebook as a deck that loads reveal.js and nothing else."""

from __future__ import annotations

import re

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from nbcompile.tools.slides import as_slides, deck


def notebook():
    picture = new_output("display_data", data={"text/html": "<div class=nbc>picture</div>", "text/plain": "picture"})
    claim = new_output("display_data", data={"text/plain": "✓ two graphs"})
    return new_notebook(cells=[
        new_code_cell("%load_ext nbcompile"),
        new_markdown_cell("# Lecture\n\nGoals.\n\n## First\n\nProse."),
        new_code_cell("%%compile\nf(x)", outputs=[picture]),
        new_code_cell("claim(...)", outputs=[claim]),
        new_code_cell("# Your answer"),
    ])  # fmt: skip


def test_headings_and_pictures_are_slides():
    """Each heading begins one; a picture is a slide below it; set-up, claims and empty answers are left out."""
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in as_slides(notebook()).cells]
    assert kinds == ["skip", "slide", "slide", "subslide", "skip", "skip"]


def test_a_deck_needs_nothing_of_the_network():
    """Every script and style sheet is a file of the copy of reveal.js that is named."""
    page = deck(notebook(), "3_breaks", "reveal.js")
    loaded = re.findall(r"""<(?:script|link|img)\b[^>]*?(?:src|href)=["']?([^"'>\s]+)""", page)
    assert loaded and all(name.startswith("reveal.js/") for name in loaded)
    assert "import mermaid" not in page and "picture" in page and "✓ two graphs" not in page
    assert "<title>3_breaks slides</title>" in page
