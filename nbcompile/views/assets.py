"""Style sheet and script of a view, minified and inline, so that a view is self-contained.

    styles("steps")                 theme.css, and the parts that some sections need
    script("trees", "what_if")      view.js, and the parts that some sections need

Everything runs inside one function: a page may hold it any number of times. A page that contains or links both once
removes them from its outputs (``without_assets``).

In torch: nothing. Read next: nbcompile/views/minify.py
"""

from __future__ import annotations

import functools
import re
import string
from importlib import resources

from markupsafe import Markup

from nbcompile.views.markup import tag
from nbcompile.views.minify import minified


def styles(*parts: str) -> Markup:
    """theme.css as an element, before the parts that some sections need."""
    return tag("style", Markup(style_text(*parts)))


@functools.cache
def style_text(*parts: str) -> str:
    """Text of the style sheet."""
    # Each output of a notebook has its own copy, and is saved with it, without comments, white space and long names.
    text = re.sub(r"/\*.*?\*/", "", "\n".join(_static(f"{name}.css") for name in ("theme", *parts)), flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" ?([{};,>]) ?|(?<=[\w-]:) ", lambda found: found[1] or "", text)
    # A registered name is valid in the whole page, where another output may have other short names. It contains a
    # hyphen, and is not shortened.
    variables = dict(zip(dict.fromkeys(_VARIABLE.findall(text)), string.ascii_letters, strict=False))
    text = _VARIABLE.sub(lambda found: f"--{variables[found[0]]}", text)
    return text.replace(";}", "}").strip()


_VARIABLE = re.compile(r"--\w+(?![\w-])")


@functools.cache
def script(*parts: str) -> Markup:
    """view.js as an element, before the parts that some sections need."""
    # Inside a function, so that names do not conflict with those of another output's script on the page.
    return tag("script", Markup('(()=>{"use strict";' + _program("view", *parts, end="setUpAll(document);") + "})()"))


@functools.cache
def module(*parts: str) -> str:
    """Script as a JavaScript module, for widgets, which initialise at rendering."""
    return _program("view", *parts, "widget")


# Our style sheet is recognised by its selector (`.nbc`) with one of our elements, a script by its first characters.
_CARRIED = re.compile(
    r'<style>(?:\.nbc)+ ?\{[^<]*</style>(?=\s*<div class="?nbc\b)|<script>\(\(\)=>\{"use strict";.*?</script>',
    re.DOTALL,
)


def without_assets(body: str) -> tuple[str, int]:
    """A page without the assets of its outputs, and the number of removed elements."""
    return _CARRIED.subn("", body)


def _program(*parts: str, end: str = "") -> str:
    return minified("\n".join(_static(f"{name}.js") for name in parts) + end)


def _static(name: str) -> str:
    return resources.files("nbcompile.views").joinpath("static", name).read_text(encoding="utf-8")
