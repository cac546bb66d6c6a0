"""Tables of plain text for pages that are generated from the code.

    table([("CB-6", "The comparison is ...", "holds")], widths=(1, 6, 3), cls="behaviours")

In torch: nothing. Read next: nbcompile/sphinx_ext/behaviours.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes


def paragraph(text: str) -> nodes.paragraph:
    """Text by itself."""
    return nodes.paragraph(text=text)


def table(rows: Iterable[Sequence[str]], widths: Sequence[int], cls: str) -> nodes.table:
    """Rows of text in columns."""
    body = nodes.tbody()
    for texts in rows:
        row = nodes.row()
        for text in texts:
            entry = nodes.entry()
            entry += paragraph(text)
            row += entry
        body += row
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += body
    result = nodes.table(classes=[cls])
    result += group
    return result
