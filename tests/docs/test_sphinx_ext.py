"""What our documentation has beside MyST-NB."""

from __future__ import annotations

import re
import textwrap

import pytest
from ipython_pygments_lexers import IPython3Lexer
from pygments.token import Keyword, Operator
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from nbcompile.sphinx_ext import page_cache, ratios
from nbcompile.sphinx_ext.differences import differences, programs
from nbcompile.sphinx_ext.failed_pages import PageError, sentences, stop_if_a_page_failed
from nbcompile.sphinx_ext.module_map import rows
from nbcompile.sphinx_ext.outputs import SCRIPT, STYLE, share_assets, write_assets
from nbcompile.tools.lexer import CompileCellLexer
from nbcompile.views import html, sections
from tests.views import sample_records as sample


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


def test_a_page_has_the_style_sheet_and_the_script_once(tmp_path):
    """Two outputs on a page of Sphinx: none carries its own, the page links both files, and a page without has none."""
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


def test_every_module_has_a_row():
    """The real table covers the package."""
    found = list(rows())
    assert "nbcompile/capture/source.py" in [row.file for row in found]
    assert [row.file for row in found if not row.in_torch] == []


def test_a_chart_of_ratios():
    """A bar for each line, to the left of 1 where it is below; its words are there for those who do not see it."""
    drawn = str(ratios.draw("ours / theirs", [("first call: cold", 0.1), ("memory", 1.5)]))
    bars = re.findall(r"<rect x='([\d.]+)' y='\d+' width='([\d.]+)' height='12'( class='lost')?", drawn)
    (one,) = re.findall(r"<line x1='([\d.]+)' x2='[\d.]+' y1='\d+' y2='\d+' class='one'", drawn)
    saved, lost = [(float(start), float(width)) for start, width, _ in bars]
    assert [bool(each) for *_, each in bars] == [False, True]
    assert sum(saved) == pytest.approx(float(one)) and lost[0] == pytest.approx(float(one))
    assert saved[1] > lost[1], "a tenth is farther from 1 than one and a half"
    assert "<title>ours / theirs. first call: cold: 0.1; memory: 1.5</title>" in drawn
    assert "#fff" not in drawn and "#000" not in drawn and "currentColor" in drawn


@pytest.mark.parametrize("line", ["words", "words: none", "words: 0", "words: -1", ": 0.5", "words: inf", "words: nan"])
def test_a_line_without_a_ratio_is_refused(line):
    """A build ends there rather than drawing something else."""
    with pytest.raises(ValueError, match=r"words|could not convert"):
        ratios.read(line)
    assert ratios.read("a: b: 0.5") == ("a: b", 0.5)


def test_differences_of_a_subject_are_those_of_the_tests():
    """Every program of a file is counted, and every known difference of one is found, with its reason."""
    names = programs(["random_draws"])
    assert len(names) > 10 and "draws_of_the_module" in names
    found = {each.program: each for each in differences(names)}
    assert set(found) < set(names)
    assert found["draws_of_the_module"].aspects == ("details",) and "drawn number" in found["draws_of_the_module"].why
    with pytest.raises(FileNotFoundError):
        programs(["no_such_file"])


def test_outputs_of_pages_are_kept_for_one_state_of_the_compiler(tmp_path, monkeypatch):
    """The folder is the same for the same sources and another one after a change; three of them are kept."""
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(page_cache, "ROOT", tmp_path)
    monkeypatch.setattr(page_cache, "FOLDERS", ("package",))
    made = []
    for text in ("1", "1", "2", "3", "4"):
        (package / "a.py").write_text(text)
        (package / "notes.txt").write_text(f"{len(made)}")  # no page shows it
        made.append(page_cache.cache_folder(tmp_path / "pages"))
    assert made[0] == made[1] and len(set(made)) == 4
    assert [each.exists() for each in made[1:]] == [False, True, True, True]


FAILING = """---
file_format: mystnb
kernelspec:
  name: python3
---

# A page

```{code-cell}
from nbcompile.tools.claims import claim

claim("there are two", len([1]) == 2)
```
"""


@pytest.mark.parametrize("mode", ["force", "cache"])
def test_a_false_claim_ends_the_build(tmp_path, mode):
    """Without -W, too: the error says the page, the claim and both values, and no page is written, also the next time."""
    (tmp_path / "index.md").write_text(FAILING)
    settings = {"extensions": ["myst_nb"], "nb_execution_mode": mode, "nb_execution_show_tb": True}
    settings |= {"nb_execution_cache_path": str(tmp_path / "kept"), "exclude_patterns": ["jupyter_execute"]}
    for _ in range(2):
        with docutils_namespace():
            app = Sphinx(
                tmp_path, None, tmp_path / "out", tmp_path / "trees", "html", settings, status=None, warning=None
            )
            app.connect("env-updated", stop_if_a_page_failed)
            with pytest.raises(PageError) as raised:
                app.build()
        said = "index: ClaimFailed: there are two: `len([1]) == 2` does not hold: left = 1, right = 2"
        assert str(raised.value).strip() == said
        assert not (tmp_path / "out" / "index.html").exists()


def test_a_page_that_failed_says_its_last_error():
    """Of a traceback, the line of the error; pages that were executed, or have no cells, are not named."""
    failed = {"succeeded": False, "error": "DeadKernelError", "traceback": "Traceback\nDeadKernelError: Kernel died\n"}
    message = {
        **failed,
        "traceback": "\x1b[0;31mKeyError\x1b[0m: 'a'\n\nnbclient.exceptions.CellExecutionError\n---\nKeyError: 'b'\nmore",
    }
    pages = {"a": {}, "b": {"exec_data": {"succeeded": True}}, "c": {"exec_data": failed}, "d": {"exec_data": message}}
    assert sentences(pages) == ["c: DeadKernelError: Kernel died", "d: KeyError: 'b'"]
    assert sentences({"e": {"exec_data": {"succeeded": False, "traceback": None, "error": None}}}) == ["e: it failed"]
