"""Models of notebooks and pages: for each host a page that treats an output's HTML as the host does.

Read from the sources of the hosts in November 2026: JupyterLab 4.5 (rendermime/src/renderers.ts, apputils/src/sanitizer.ts),
VS Code's notebook renderers (extensions/notebook-renderers/src/index.ts), nbconvert 7, MyST's theme 1.4 (jupyter/components,
passive), marimo 0.25 (run for real by tests/jupyter/test_marimo.py). To be looked up again when these change.
"""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser

# --- hosts that run scripts --------------------------------------------------------------------

# The treatment of an output by a host that runs scripts.
_LAB = """
host.innerHTML = output;
for (const old of [...host.querySelectorAll("script")]) {
  const script = document.createElement("script");
  for (const each of old.attributes) script.setAttribute(each.name, each.value);
  script.textContent = old.textContent;
  old.replaceWith(script);
}
"""
# JupyterLab's rules for tables, lists and code in outputs (rendermime/style, 4.5), with the same specificity;
# and nbconvert's rules for word breaks.
LAB_LOOKS = """<style>
.jp-T .jp-R :is(pre, code) { border: 0; background-color: #fed; color: #123; font-size: 20px; line-height: 2; padding: 0; margin: 0 }
.jp-T .jp-R :not(pre) > code { background-color: #eee; padding: 1px 5px }
.jp-T .jp-R pre { word-break: break-all; color: #123; font-size: 20px; margin: 0; padding: 0 }
.jp-R table { border-collapse: collapse; border-spacing: 0; border: none; color: #123; font-size: 20px; table-layout: fixed; margin: 0 auto 1em }
.jp-R :is(td, th, tr) { vertical-align: middle; padding: 0.5em; line-height: normal; white-space: normal; max-width: none; border: none }
:not(.jp-M).jp-R :is(td, th, tr) { text-align: right }
.jp-R th { font-weight: bold }
.jp-R thead { border-bottom: 3px solid #123; vertical-align: bottom }
.jp-R tbody tr:nth-child(odd) { background: #abc }
.jp-R tbody tr:nth-child(even) { background: #cba }
.jp-R :is(ul, ol):not(.list-inline) { padding-left: 2em }
.jp-R ul ul ul { list-style: circle }
.jp-R ul ul { list-style: square }
.jp-R ol ol ol { list-style: lower-alpha }
.jp-R ol ol { list-style: upper-alpha }
.jp-R :is(ol, ul) { margin-bottom: 1em }
.jp-R :is(ul, ol) :is(ul, ol) { margin-bottom: 0 }
.jp-R dl dt { float: left; width: 20%; display: block; font-weight: bold; margin: 9px; padding: 9px }
.jp-R dl dd { float: left; width: 80%; display: block; margin: 9px; padding: 9px }
.jp-R p { text-align: left; margin: 0 0 1em }
.jp-R :is(img, svg) { max-width: 100%; height: auto }
</style>"""


def in_lab(output: str) -> str:
    """An output after JupyterLab's styles."""
    return f'{LAB_LOOKS}<div class="jp-T"><div class="jp-R">{output}</div></div>'


_CODE = """
host.innerHTML = output;
for (const old of [...host.querySelectorAll("script")]) {
  const script = document.createElement("script");
  if (old.type) script.type = old.type;
  script.text = old.text;
  host.append(script);
  script.remove();
}
"""
# MyST's themes render outputs with JupyterLab's own renderer, or put long ones in as a fragment.
_MYST = "host.append(document.createRange().createContextualFragment(output));"
# marimo keeps styles and inserts the rest as HTML: no script runs.
_MARIMO = "host.innerHTML = output;"


def _shown(program: str, output: str) -> str:
    data = json.dumps(output).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return f'<div id="host"></div><script>{{const host = document.getElementById("host"), output = {data};{program}}}</script>'


# --- hosts that strip --------------------------------------------------------------------------

_LAB_TAGS = (
    "a abbr b blockquote br button caption code dd del details div dl dt em figure h1 h2 h3 h4 h5 h6 header hr i img "
    "input kbd label li main mark meter ol optgroup option output p pre s samp section select small span strong sub "
    "summary sup table tbody td textarea tfoot th thead tr u ul var"
).split()
_LAB_ATTRIBUTES = (
    "alt",
    "class",
    "colspan",
    "headers",
    "height",
    "href",
    "open",
    "rowspan",
    "scope",
    "src",
    "start",
    "title",
    "type",
    "value",
    "width",
)
_PLAIN_TAGS = "b blockquote br code dd del details div dl dt em i img li ol p pre small span strong summary table tbody td th thead tr ul".split()
_VOID = {"br", "hr", "img", "input"}


class _Strip(HTMLParser):
    def __init__(self, tags: list[str], attributes: tuple[str, ...], images: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tags, self.attributes, self.images = set(tags), set(attributes), images
        self.kept: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self.hidden += 1
        if self.hidden or tag not in self.tags:
            return
        kept = [(key, value) for key, value in attributes if key in self.attributes and self._allowed(key, value or "")]
        words = "".join(f' {key}="{html.escape(value or "")}"' for key, value in kept)
        self.kept.append(f"<{tag}{' disabled' if tag == 'input' else ''}{words}>")

    def _allowed(self, key: str, value: str) -> bool:
        return key not in ("src", "href") or re.match(self.images, value) is not None

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self.hidden -= 1
        elif not self.hidden and tag in self.tags and tag not in _VOID:
            self.kept.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.kept.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


def _stripped(output: str, tags: list[str], attributes: tuple[str, ...], images: str) -> str:
    parser = _Strip(tags, attributes, images)
    parser.feed(output)
    parser.close()
    return "".join(parser.kept)


# --- all of them -------------------------------------------------------------------------------

_IN_FRAME = '<!doctype html><html lang=en><meta name=color-scheme content="light dark"><title>output</title><main>'
LIVE = {
    "static": lambda output: output,
    "twice": lambda output: f"{output}<p>and again</p>{output}",
    "lab": lambda output: _shown(_LAB, output),
    "lab, run again": lambda output: _shown(_LAB + _LAB, output),
    "vs code": lambda output: _shown(_CODE, output),
    "myst": lambda output: _shown(_MYST, output),
    "iframe": lambda output: (
        f'<iframe title="output" sandbox="allow-scripts" width="100%" height="800" '
        f'srcdoc="{html.escape(_IN_FRAME + output)}"></iframe>'
    ),
}
"""Where scripts run."""
STILL = {
    "lab, untrusted": lambda output: _stripped(output, _LAB_TAGS, _LAB_ATTRIBUTES, r"data:image/|https?:|#"),
    "sanitised": lambda output: _stripped(output, _PLAIN_TAGS, ("open", "alt"), r"$^"),
    "no script": lambda output: output,
    "marimo": lambda output: _shown(_MARIMO, output),
}
"""Where they do not."""
HOSTS = {**LIVE, **STILL}
