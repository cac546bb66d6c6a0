"""A page with a false claim ends the build, and the error names the claim."""

from __future__ import annotations

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from nbcompile.sphinx_ext.failed_pages import PageError, sentences, stop_if_a_page_failed

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
    """Without -W, too, the error has page, claim and both values, and the page is never written."""
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
    """The error has the last line of a traceback; pages without errors or cells are not named."""
    failed = {"succeeded": False, "error": "DeadKernelError", "traceback": "Traceback\nDeadKernelError: Kernel died\n"}
    message = {
        **failed,
        "traceback": "\x1b[0;31mKeyError\x1b[0m: 'a'\n\nnbclient.exceptions.CellExecutionError\n---\nKeyError: 'b'\nmore",
    }
    pages = {"a": {}, "b": {"exec_data": {"succeeded": True}}, "c": {"exec_data": failed}, "d": {"exec_data": message}}
    assert sentences(pages) == ["c: DeadKernelError: Kernel died", "d: KeyError: 'b'"]
    assert sentences({"e": {"exec_data": {"succeeded": False, "traceback": None, "error": None}}}) == ["e: it failed"]
