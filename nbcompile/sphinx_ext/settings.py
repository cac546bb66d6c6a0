"""A table of every setting: its default, and what it does, or why it does nothing here.

    verbose: bool = False        verbose | False | Error messages show the compiler's own stack as well.
    "Error messages ..."

The text is the docstring below the setting in nbcompile/config.py; torch's
settings that mean nothing here say why (``NO_EFFECT``).

In torch: nothing. Read next: nbcompile/config.py
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from nbcompile import config
from nbcompile.sphinx_ext.tables import table

SOURCE = Path(config.__file__ or "")


def settings() -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each, in the order of the module."""
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    texts = {
        each.target.id: re.sub(r"\s+", " ", following.value.value)
        for each, following in itertools.pairwise(body)
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }
    for name in config.names():
        no_effect = config.NO_EFFECT.get(name)
        text = f"No effect: {no_effect}." if no_effect else texts.get(name, "As in torch.")
        yield name, repr(config.DEFAULTS[name]).replace("frozenset()", "set()"), text


class Settings(SphinxDirective):
    """``{settings}``: the table."""

    def run(self) -> list[nodes.Node]:
        """Build the table; the page depends on the module of settings."""
        self.env.note_dependency(str(SOURCE))
        return [table(list(settings()), widths=(3, 2, 6), cls="settings")]
