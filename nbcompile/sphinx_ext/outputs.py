"""Style sheet and script of the views: included once in a page of documentation, as files, for any number of outputs.

    <style>.nbc...{...}</style><div class=nbc>...</div><script>(()=>{...})()</script>      an output, in a notebook
    <div class=nbc>...</div>                                                            the same, in our pages

An output in a notebook contains both, since its surroundings are unknown. A page of Sphinx can link files in its head.

In torch: nothing. Read next: nbcompile/views/assets.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from nbcompile.views import assets, html

STYLE, SCRIPT = "nbcompile-views.css", "nbcompile-views.js"


def share_assets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Remove shared parts from the outputs of a page before it is written, and link the files instead."""
    del page, template, doctree  # part of Sphinx's protocol
    body, carried = assets.without_assets(context.get("body", ""))
    if carried:
        context["body"] = body
        app.add_css_file(STYLE)  # of this page only, as this is its event
        app.add_js_file(SCRIPT, loading_method="defer")


def write_assets(app: Sphinx, error: Exception | None) -> None:
    """Write the two files, with every part, at the end."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static"
    folder.mkdir(exist_ok=True)
    for name, element in ((STYLE, assets.styles(*html.ALL_STYLES)), (SCRIPT, assets.script(*html.ALL_PROGRAMS))):
        folder.joinpath(name).write_text(re.sub(r"^<\w+>|</\w+>$", "", str(element)), encoding="utf-8")
