"""Highlighting of cells that begin with ``%%compile``."""

from __future__ import annotations

import pytest
from pygments.token import Keyword, Operator

lexer = pytest.importorskip("nbcompile.tools.lexer", reason="IPython's lexer is not installed")


def test_the_body_of_the_magic_is_python():
    """The body of the magic is highlighted as Python, and its options are not."""
    tokens = list(lexer.CompileCellLexer().get_tokens("%%compile --fullgraph\ndef f(x):\n    return x\n"))
    assert (Operator, "%%compile") in tokens
    assert [text for kind, text in tokens if kind in Keyword] == ["def", "return"]
    assert (Keyword, "def") not in lexer.IPython3Lexer().get_tokens("%%compile\ndef f(x):\n    return x\n")


def test_other_cells_are_ipythons():
    """A cell of Python, or with another magic, is IPython's."""
    for text in ("def f(x):\n    return x\n", "%timeit f(1)\n", "!ls\n", "x = 1\n", "%%bash\nls\n"):
        assert list(lexer.CompileCellLexer().get_tokens(text)) == list(lexer.IPython3Lexer().get_tokens(text))
