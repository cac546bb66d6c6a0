"""Tables of plain text."""

from __future__ import annotations

from docutils import nodes
from docutils.core import publish_from_doctree
from docutils.utils import new_document

from nbcompile.sphinx_ext.tables import table
from tests.sphinx_ext.pages import cells


def test_text_in_a_table_is_text():
    """Markup and HTML in a cell are literal, and empty cells remain."""
    rows = [("a *b* `c`", "<b>&"), ("", "last")]
    made = table(rows, widths=(1, 3), cls="known")
    assert cells(made) == [list(row) for row in rows]
    document = new_document("page")
    document += made
    html = publish_from_doctree(document, writer="html5").decode()
    assert "a *b* `c`" in html and "&lt;b&gt;&amp;" in html and 'class="known"' in html


def test_columns_have_the_widths_that_are_asked_for():
    """The table has as many columns as widths, and may have no rows."""
    made = table([], widths=(1, 6, 3), cls="")
    assert [column["colwidth"] for column in made.findall(nodes.colspec)] == [1, 6, 3]
    assert next(made.findall(nodes.tgroup))["cols"] == 3 and cells(made) == []
