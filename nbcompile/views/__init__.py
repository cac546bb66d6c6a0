"""Views: a record as text, as HTML, as a page.

    record -> facts -> text.render(record) plain text for terminals and diffs
                    -> html.render(record) HTML for notebooks
                    -> report.page(...)         one file to keep or send
                    -> live.View(record)        a widget

Each is a pure function of a Record and does not depend on the compiler: all that it shows was recorded, not recomputed.

In torch: nothing. Read next: nbcompile/views/sections.py
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbcompile.record.model import Record
from nbcompile.views import html, text


def mimebundle(record: Record, show: str | Iterable[str] | None = None) -> dict[str, str]:
    """MIME bundle for Jupyter: HTML, and text for hosts without it."""
    selected = show if show is None or isinstance(show, str) else tuple(show)
    return {"text/plain": text.render(record, selected), "text/html": html.render(record, selected)}


@dataclass(frozen=True, slots=True)
class StaticView:
    """The page without scripts; a ``_repr_html_`` would be shown in an iframe, which does not have the host's theme."""

    record: Record

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mimebundle(self.record)


def for_marimo(record: Record) -> object:
    """Display for marimo, which runs scripts of widgets only; without a widget library, plain HTML."""
    try:
        # Imported by name: that module needs anywidget, and a view must be shown without it, too.
        live: Any = importlib.import_module("nbcompile.views.live")
    except ImportError:
        return StaticView(record)
    return live.View(record)
