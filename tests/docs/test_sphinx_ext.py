"""What our documentation has beside MyST-NB."""

from __future__ import annotations

from ipython_pygments_lexers import IPython3Lexer
from pygments.token import Keyword, Operator

from nbcompile.sphinx_ext.lexer import CompileCellLexer
from nbcompile.sphinx_ext.module_map import rows


def test_the_body_of_a_compile_cell_is_python():
    """Keywords below %%compile are keywords, which they are not to IPython's own lexer; other cells are as before."""
    text = "%%compile --fullgraph\ndef f(x):\n    return x\n"
    assert (Keyword, "def") in CompileCellLexer().get_tokens(text)
    assert (Operator, "%%compile") in CompileCellLexer().get_tokens(text)
    assert (Keyword, "def") not in IPython3Lexer().get_tokens(text)
    for other in ("%time f(x)\n", "!ls\n", "x = 1\n", "%%bash\nls\n"):
        assert list(CompileCellLexer().get_tokens(other)) == list(IPython3Lexer().get_tokens(other))


def test_the_map_of_modules(tmp_path):
    """A row is a module's first sentence and its `In torch:` line, however they are wrapped."""
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    ending = "In torch: torch/a.py (``A``),\ntorch/b.py. Read next: b.py"
    (package / "a.py").write_text(f'"""Where a value\ncame from.\n\nMore words.\n\n{ending}\n"""\n')
    [row] = rows(package)
    assert (row.file, row.idea, row.in_torch) == (
        "house/a.py",
        "Where a value came from.",
        "torch/a.py (``A``), torch/b.py",
    )


def test_every_module_has_a_row():
    """The real table covers the package."""
    found = list(rows())
    assert "nbcompile/capture/source.py" in [row.file for row in found]
    assert [row.file for row in found if not row.in_torch] == []
