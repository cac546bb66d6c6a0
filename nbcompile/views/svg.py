"""An arrangement of boxes as SVG for light and dark pages.

    Arrangement(...) -> <svg viewBox="0 0 180 240"><g class="n-b n-input" data-n="n0">...

The same drawing has two uses. In an ``<img>`` its own ``<style>`` has colours for the reader's preference; the page's
script inserts it into the page, without that style, where theme.css colours it and each box can be selected.

In torch: nothing. Read next: nbcompile/views/graph.py
"""

from __future__ import annotations

import math

from markupsafe import Markup

from nbcompile.views.boxes import Box
from nbcompile.views.dot import Arrangement
from nbcompile.views.markup import xml_tag as tag

# The picture has a background of its own: it may be shown without styles, on a page of the other theme.
_STYLE = Markup(
    ":root{color-scheme:light dark;background:light-dark(#fff,#15181e)}"
    "text{font:600 12px monospace;text-anchor:middle;fill:light-dark(#1c2330,#e4e8ef)}"
    "text+text{font:10px monospace}rect,path{fill:none;stroke:#8a93a3;rx:7px}.n-a{fill:#8a93a3}"
)
_MARGIN = 6


_PALE = Markup("text{fill:light-dark(#626b7a,#9aa3b2)}rect,path{stroke-dasharray:3 3}")
_FAILED = Markup(".n-failed text{fill:light-dark(#a3262c,#ff9aa0)}.n-failed rect{stroke:#d0454c;stroke-width:2.5}")


def draw(shown: tuple[Box, ...], arrangement: Arrangement, names: tuple[str, ...], *, pale: bool = False) -> Markup:
    """The SVG; ``names[i]`` is the link ids of box i, with spaces. A graph that was not compiled is ``pale``."""
    wide, high = math.ceil(arrangement.width + 2 * _MARGIN), math.ceil(arrangement.height + 2 * _MARGIN)
    arrows = [_arrow(curve) for _, _, curve in arrangement.arrows]
    # All curves are one path and all heads another, which halves the size: no arrow is addressed separately.
    curves, heads = ("".join(parts) for parts in zip(*arrows, strict=True)) if arrows else ("", "")
    drawn = [_box(*each) for each in zip(shown, arrangement.centres, names, strict=True)]
    size = {"width": wide, "height": high, "viewBox": f"{-_MARGIN} {-_MARGIN} {wide} {high}"}
    paths = (tag("path", d=curves), tag("path", d=heads, class_="n-a")) if arrows else None
    style = (_STYLE, _PALE, _FAILED) if pale else _STYLE
    kind = "n-pale" if pale else ""
    return tag("svg", tag("style", style), paths, drawn, xmlns="http://www.w3.org/2000/svg", class_=kind, **size)


def data_url(drawing: Markup) -> Markup:
    """The drawing as the source of an ``<img>``: it is shown if inline SVG is removed, too.

    Readable, and a quarter smaller than base64: only characters that end an attribute or an address are escaped.
    """
    text = str(drawing)
    for letter, spelled in (("%", "%25"), ("#", "%23"), ("&", "%26"), ('"', "%22"), ("\n", "%0A")):
        text = text.replace(letter, spelled)
    return Markup("data:image/svg+xml," + text)


def _arrow(curve: tuple[tuple[float, float], ...]) -> tuple[str, str]:
    """The path of a curve and of its head. The head is drawn here: a <marker> would need an id."""
    (x0, y0), *rest = curve
    x1, y1 = rest[-1]
    # The head has the direction of the curve's end: away from the last control point that is not the end itself.
    before = next((each for each in (*reversed(rest[:-1]), curve[0]) if each != (x1, y1)), (x1, y1 - 1))
    angle = math.atan2(y1 - before[1], x1 - before[0])
    (ax, ay), (bx, by) = ((-6.5 * math.cos(angle + turn), -6.5 * math.sin(angle + turn)) for turn in (0.42, -0.42))
    straight = _is_straight(curve)
    points = " ".join(f"{x:.0f} {y:.0f}" for x, y in ([rest[-1]] if straight else rest))
    head = f"M{x1:.0f} {y1:.0f}l{_short(ax)} {_short(ay)} {_short(bx - ax)} {_short(by - ay)}z"
    return f"M{x0:.0f} {y0:.0f}{'L' if straight else 'C'}{points}", head


def _short(number: float) -> str:
    """A number with one digit behind the point, if it has one."""
    # ``or 0``: a small negative number is rounded to -0.0, which would be written with its sign.
    return f"{round(number, 1) or 0:g}"


def _is_straight(curve: tuple[tuple[float, float], ...]) -> bool:
    """Return whether all control points are within a pixel of the line between the ends."""
    (x0, y0), (x1, y1) = curve[0], curve[-1]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    return all(abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) / length < 1.0 for x, y in curve)


def _box(box: Box, centre: tuple[float, float], names: str) -> Markup:
    (width, height), (x, y) = box.size, (round(each) for each in centre)
    left, top = round(x - width / 2), round(y - height / 2)
    shape = tag("rect", x=left, y=top, width=f"{width:g}", height=f"{height:g}")
    title = tag("text", box.title, x=x, y=y - 3 if box.detail else y + 4)
    detail = tag("text", box.detail, x=x, y=y + 13) if box.detail else None
    # The operators' boxes are plain: only the others need a class.
    kind = "" if box.kind == "operator" else f"n-{box.kind}"
    return tag("g", shape, title, detail, class_=kind, data_n=names)
