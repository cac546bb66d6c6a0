"""A chart of ratios, drawn when the documentation is built from the numbers in the page.

    ```{ratios} nbcompile / torch.compile
    first call in a fresh process: 0.093          a bar from 1 to 0.093, on a logarithmic scale
    ```

Below 1 is better: a bar that goes to the left is time or memory saved, one that goes to the right is lost. Text and
lines have the colour of the page's text, light or dark; the drawing fits a phone and grows no wider than 34 em.

In torch: nothing. Read next: benchmarks/report.py, which writes the numbers
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from docutils import nodes
from markupsafe import Markup
from sphinx.util.docutils import SphinxDirective

from nbcompile.views.markup import xml_tag as tag

WIDTH, ROW, TOP, LEFT, RIGHT = 360, 38, 30, 4, 8
"""Pixels: width of the drawing, height of a bar with its label, top margin, left margin."""
TICKS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_STYLE = Markup(
    ".nbc-ratios{display:block;width:100%;max-width:34em;margin:1em 0}"
    ".nbc-ratios text{font:12px sans-serif;fill:currentColor}.nbc-ratios .value{font-weight:600;text-anchor:end}"
    ".nbc-ratios .tick{font-size:10px;text-anchor:middle;opacity:.75}"
    ".nbc-ratios line{stroke:currentColor;opacity:.25}.nbc-ratios .one{opacity:.9}"
    ".nbc-ratios rect{fill:#4a7fd6}.nbc-ratios .lost{fill:#c9672f}"
)


class Ratios(SphinxDirective):
    """``{ratios}``: a line for each, ``words: number``; the argument names dividend and divisor."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Draw the ratios."""
        try:
            found = [read(line) for line in self.content if line.strip()]
        except ValueError as error:
            raise self.error(str(error)) from None
        return [nodes.raw("", str(draw(self.arguments[0], found)), format="html")]


def read(line: str) -> tuple[str, float]:
    """A line's words and number.

    Raises:
        ValueError: it has no number above 0.
    """
    words, _, number = line.rpartition(":")
    value = float(number)
    if not 0 < value < math.inf or not words.strip():
        raise ValueError(f"a line of {{ratios}} is words, a colon and a number above 0, and not {line!r}")
    return words.strip(), value


def draw(title: str, found: Iterable[tuple[str, float]]) -> Markup:
    """The SVG."""
    rows = list(found)
    least, most = min([0.5, *(value for _, value in rows)]), max([2.0, *(value for _, value in rows)])
    shown = [each for each in TICKS if least / 3 <= each <= most * 3]
    scale = _Scale(min(least, *shown), max(most, *shown))
    height = TOP + ROW * len(rows)
    text = "; ".join(f"{words}: {value:g}" for words, value in rows)
    return tag(
        "svg",
        tag("title", f"{title}. {text}"),
        tag("style", _STYLE),
        [_tick(each, scale, height) for each in shown],
        [_bar(index, words, value, scale) for index, (words, value) in enumerate(rows)],
        xmlns="http://www.w3.org/2000/svg", class_="nbc-ratios", role="img", viewBox=f"0 0 {WIDTH} {height}",
    )  # fmt: skip


class _Scale:
    """Logarithmic scale: position of a ratio in the drawing."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.span = math.log(least), math.log(most) - math.log(least)

    def __call__(self, value: float) -> float:
        return round(LEFT + 16 + (WIDTH - LEFT - RIGHT - 32) * (math.log(value) - self.least) / self.span, 1)


def _tick(value: float, scale: _Scale, height: int) -> list[Markup]:
    at = scale(value)
    look = "one" if value == 1 else None
    return [
        tag("text", f"{value:g}", x=at, y=12, class_="tick"),
        # Dashes as long as a bar with its margins: no line crosses the words above it.
        tag("line", x1=at, x2=at, y1=TOP + 12, y2=height, class_=look, stroke_dasharray=f"{ROW // 2} {ROW // 2}"),
    ]


def _bar(index: int, words: str, value: float, scale: _Scale) -> list[Markup]:
    y, (start, end) = TOP + ROW * index, sorted((scale(value), scale(1)))
    look = "lost" if value > 1 else None
    return [
        tag("text", words, x=LEFT, y=y + 10),
        tag("text", f"{value:g}", x=WIDTH - RIGHT, y=y + 10, class_="value"),
        tag("rect", x=start, y=y + 15, width=max(round(end - start, 1), 1), height=12, class_=look),
    ]
