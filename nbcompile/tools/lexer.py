"""Highlighting for cells that begin with ``%%compile``.

IPython's lexer takes the body of a cell magic that it does not know for plain
text; the body of ours is Python.

    %%compile --fullgraph        operator, options
    def f(x):                    keyword, name, ...

In torch: nothing. Read next: nbcompile/sphinx_ext/__init__.py
"""

from __future__ import annotations

from typing import ClassVar

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import bygroups, using
from pygments.token import Operator, Text


class CompileCellLexer(IPython3Lexer):
    """IPython's lexer, and the body of ``%%compile`` as Python."""

    name = "IPython with %%compile"
    aliases: ClassVar[list[str]] = ["nbcompile"]
    tokens: ClassVar[dict[str, list[object]]] = {
        **IPython3Lexer.tokens,
        "root": [
            (r"(?s)(\s*)(%%compile)([^\n]*\n)(.*)", bygroups(Text, Operator, Text, using(IPython3Lexer))),
            *IPython3Lexer.tokens["root"],
        ],
    }
