"""The table of settings."""

from __future__ import annotations

from nbcompile import config
from nbcompile.sphinx_ext.settings import Settings
from tests.sphinx_ext import pages


def test_a_row_for_each_setting(tmp_path):
    """Each setting has a row with its default and a sentence; the page depends on the settings."""
    document, depends = pages.read(tmp_path, ".. settings::", settings=Settings)
    rows = pages.cells(document)
    assert [name for name, *_ in rows] == list(config.names())
    defaults = {name: default for name, default, _ in rows}
    assert defaults["verbose"] == repr(config.DEFAULTS["verbose"])
    assert all(text.endswith(".") for *_, text in rows)
    assert "config.py" in depends
