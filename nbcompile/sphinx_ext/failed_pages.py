"""End of a build in which a page failed: the name of the page, and the last line of its error.

    docs/recompilation: ClaimFailed: one entry: `len(entries) == 1` does not hold: left = 2, right = 1

MyST-NB warns of a page that fails, with the whole traceback, and runs the next one. Here the build ends after all pages
were read, also without ``-W``: no page is written, and the errors are listed together.

In torch: nothing. Read next: nbcompile/tools/claims.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError

COLORS = re.compile(r"\x1b\[[0-9;]*m")


class PageError(SphinxError):
    """Cells of a page raised."""

    category = "Pages failed"


def stop_if_a_page_failed(app: Sphinx, env: BuildEnvironment) -> None:
    """Report the failed pages, when all pages were read and executed.

    Raises:
        PageError: some failed.
    """
    del app  # part of Sphinx's protocol
    failed = sentences(getattr(env, "nb_metadata", {}))
    if failed:
        raise PageError("\n" + "\n".join(failed))


def sentences(pages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each page that failed, from MyST-NB's data about executions."""
    found = []
    for page, kept in sorted(pages.items()):
        execution = kept.get("exec_data")
        if execution and not execution["succeeded"]:
            lines = COLORS.sub("", execution["traceback"] or execution["error"] or "").strip().splitlines()
            # The traceback of the cell ends with the error; of a message with several lines, this is the first.
            begins = [line for line in lines if re.match(r"[\w.]+(?:Error|Exception|Failed|Interrupt|Exit)\b", line)]
            found.append(f"{page}: {(begins or lines or ['it failed'])[-1]}")
    return found
