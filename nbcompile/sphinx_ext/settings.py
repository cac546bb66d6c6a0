"""A table of every setting: its default, and what it does, or why it does nothing here.

    ```{settings}```        verbose | False | Error messages show the compiler's own stack as well.

In torch: nothing. Read next: nbcompile/tools/settings.py
"""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from nbcompile.sphinx_ext.tables import table
from nbcompile.tools.settings import SOURCE, meanings, shown


class Settings(SphinxDirective):
    """``{settings}``: the table."""

    def run(self) -> list[nodes.Node]:
        """Build the table; the page depends on the module of settings."""
        self.env.note_dependency(str(SOURCE))
        rows = [(each.name, shown(each.default), each.text) for each in meanings()]
        return [table(rows, widths=(3, 2, 6), cls="settings")]
