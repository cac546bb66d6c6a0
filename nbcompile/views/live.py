"""A view as a widget, for hosts that run scripts of widgets only.

    View(explained, ["source", "graph"])      live in marimo as in a notebook

Needs ``pip install nbcompile[widget]``, which no other view needs.

In torch: nothing. Read next: nbcompile/views/static/widget.js
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anywidget
import traitlets

from nbcompile.record.model import Record
from nbcompile.views import assets, html


class View(anywidget.AnyWidget):
    """Any view with its script.

    Args:
        seen: a record, or what has one: the result of ``explain`` or of ``%%compile -o``.
        show: a section or several, as in ``%%compile --show``; by default the usual ones.
    """

    _esm = assets.module(*html.ALL_PROGRAMS)
    _css = assets.style_text(*html.ALL_STYLES)
    page = traitlets.Unicode().tag(sync=True)
    """The static view."""

    def __init__(self, seen: Any, show: str | Iterable[str] | None = None) -> None:
        record: Record = getattr(seen, "record", seen)
        super().__init__(page=html.render(record, show, assets=False))
