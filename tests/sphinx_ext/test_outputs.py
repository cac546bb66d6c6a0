"""Outputs on a page of Sphinx share one style sheet and one script."""

from __future__ import annotations

import textwrap

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from nbcompile.sphinx_ext.outputs import SCRIPT, STYLE, share_assets, write_assets
from nbcompile.views import html, sections
from tests.views import sample_records as sample


def test_a_page_has_the_style_sheet_and_the_script_once(tmp_path):
    """A Sphinx page with two outputs links style sheet and script once, and a page without outputs links neither."""
    output = html.render(sample.simple()), html.render(sample.recompiled(), sections.USUAL)
    (tmp_path / "conf.py").write_text("")
    raw = "\n\n".join(f".. raw:: html\n\n{textwrap.indent(each, '   ')}" for each in output)
    (tmp_path / "index.rst").write_text(f"Two\n===\n\n.. toctree::\n\n   other\n\n{raw}\n")
    (tmp_path / "other.rst").write_text("None\n====\n\nNothing.\n")
    with docutils_namespace():
        app = Sphinx(tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees", "html", status=None, warning=None)
        app.connect("html-page-context", share_assets)
        app.connect("build-finished", write_assets)
        app.build()
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("class=nbc>") == 2
    assert page.count("<style>.nbc") == page.count('"use strict"') == 0
    assert page.count(STYLE) == page.count(SCRIPT) == 1
    assert STYLE not in (tmp_path / "out" / "other.html").read_text()
    for name in (STYLE, SCRIPT):
        assert (tmp_path / "out" / "_static" / name).stat().st_size > 4_000


def test_a_build_that_failed_writes_no_files(tmp_path):
    """After a failed build no file is written, because the folder may be missing."""
    write_assets(None, RuntimeError("the build failed"))
    assert list(tmp_path.iterdir()) == []
