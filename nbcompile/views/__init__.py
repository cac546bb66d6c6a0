"""Pictures of a record: text, HTML, whole pages.

    record -> facts -> text.render(record)      what terminals and diffs see
                    -> html.render(record)      what notebooks show
                    -> report.page(...)         one file to keep or send

Each is a pure function of a Record and knows nothing of the compiler: whatever
is on screen was recorded, not recomputed.

In torch: nothing. Read next: nbcompile/views/sections.py
"""

from __future__ import annotations

from collections.abc import Iterable

from nbcompile.record.model import Record
from nbcompile.views import html, text


def mimebundle(record: Record, show: str | Iterable[str] | None = None) -> dict[str, str]:
    """What Jupyter displays: HTML where it can, text everywhere else."""
    wanted = show if show is None or isinstance(show, str) else tuple(show)
    return {"text/plain": text.render(record, wanted), "text/html": html.render(record, wanted)}
