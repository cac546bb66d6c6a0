"""Sphinx: the documentation is docs/ and notebooks/, executed while it is built."""

import atexit
import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path

from nbcompile.sphinx_ext.page_cache import cache_folder

project = "nbcompile"
author = "the nbcompile developers"
copyright = f"2026, {author}"
release = version = importlib.metadata.version("nbcompile")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "nbcompile.sphinx_ext"]

root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/**", "tests/cases/*.md"]
exclude_patterns = ["**/.ipynb_checkpoints", "**/jupyter_execute", "docs/_*", "build", ".venv*"]

# Every page runs as users run it, over an empty store: one that is left over would show pictures of older calls.
os.environ["NBCOMPILE_FRAMES_DIR"] = tempfile.mkdtemp(prefix="nbcompile-docs-")
atexit.register(shutil.rmtree, os.environ["NBCOMPILE_FRAMES_DIR"], ignore_errors=True)
# torch's profiler writes to stderr when it starts and stops, whatever level below this one is set.
os.environ["KINETO_LOG_LEVEL"] = "99"
os.environ["NBCOMPILE_PROGRESS"] = os.environ["NBCOMPILE_FRAMES_DIR"] + "/progress.json"  # of exercises
# `make docs CACHED=1` keeps outputs of pages under a name that changes with the compiler, and with what it runs on.
IS_CACHED = bool(os.environ.get("NBCOMPILE_DOCS_CACHED"))
nb_execution_mode = "cache" if IS_CACHED else "force"
nb_execution_cache_path = str(cache_folder(Path(__file__).parent / "build" / "pages")) if IS_CACHED else ""
nb_execution_raise_on_error = False  # raised, Sphinx would say the page alone: nbcompile/sphinx_ext/failed_pages.py
nb_execution_show_tb = True
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_merge_streams = True
nb_render_error_lexer = "none"  # messages have backticks, which are not Python
nb_render_markdown_format = "gfm"  # plain CommonMark has no tables
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

templates_path = ["docs/_templates"]
html_static_path = ["docs/_static"]
html_theme = "sphinx_book_theme"
html_title = "nbcompile"
html_theme_options = {"show_toc_level": 2, "use_download_button": False, "use_fullscreen_button": False}
html_additional_pages = {"index": "to_docs.html"}  # the root document lives in docs/
html_copy_source = False
html_show_sourcelink = False
