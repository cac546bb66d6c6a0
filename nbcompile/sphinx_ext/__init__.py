"""A Sphinx extension: features that our documentation needs in addition to MyST-NB.

    extensions = ["myst_nb", "nbcompile.sphinx_ext"]      in conf.py

    ```{code-cell}
    %%compile                   highlighted as Python, magic included,
    def f(x): ...               and its view is as wide as the page allows
    ```

In torch: nothing. Read next: nbcompile/tools/lexer.py, nbcompile/sphinx_ext/module_map.py
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from nbcompile.sphinx_ext.behaviours import Behaviours
from nbcompile.sphinx_ext.break_pages import write_pages
from nbcompile.sphinx_ext.course_table import CourseTable
from nbcompile.sphinx_ext.differences import Differences
from nbcompile.sphinx_ext.failed_pages import stop_if_a_page_failed
from nbcompile.sphinx_ext.literal_examples import keep_examples
from nbcompile.sphinx_ext.module_map import ModuleMap
from nbcompile.sphinx_ext.outputs import share_assets, write_assets
from nbcompile.sphinx_ext.ratios import Ratios
from nbcompile.sphinx_ext.settings import Settings
from nbcompile.tools.lexer import CompileCellLexer

ASSETS = Path(__file__).parent / "static"


def setup(app: Sphinx) -> dict[str, bool]:
    """Set the extension up: Sphinx calls this."""
    for name in ("ipython", "ipython3"):  # the names that kernels report as their language
        app.add_lexer(name, CompileCellLexer)
    app.add_directive("module-map", ModuleMap)
    app.add_directive("behaviours", Behaviours)
    app.add_directive("course-table", CourseTable)
    app.add_directive("differences", Differences)
    app.add_directive("ratios", Ratios)
    app.add_directive("settings", Settings)
    app.connect("builder-inited", _add_assets)
    app.connect("builder-inited", write_pages)
    app.add_css_file("nbcompile-docs.css")
    app.add_js_file("nbcompile-docs.js")
    app.connect("autodoc-process-docstring", keep_examples)
    app.connect("env-updated", stop_if_a_page_failed)
    app.connect("html-page-context", share_assets)
    app.connect("build-finished", write_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_assets(app: Sphinx) -> None:
    app.config.html_static_path.append(str(ASSETS))
