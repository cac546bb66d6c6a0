"""Boxes and arrows as SVG."""

from __future__ import annotations

import re
import urllib.parse
from xml.etree import ElementTree as ET

import pytest

from nbcompile.views.boxes import Box
from nbcompile.views.dot import Arrangement
from nbcompile.views.svg import data_url, draw

BOXES = (Box(("n0",), "input", "x < 1", "f32[2]", ()), Box(("n1", "n2"), "operator", 'a "b" & c', "", (0,)))
CENTRES = ((40.0, 20.0), (40.0, 90.0))


def arrangement(*curves) -> Arrangement:
    return Arrangement(100.0, 120.0, CENTRES, tuple((0, 1, curve) for curve in curves))


STRAIGHT = ((40.0, 30.0), (40.0, 45.0), (40.0, 60.0), (40.0, 80.0))
BENT = ((40.0, 30.0), (90.0, 45.0), (90.0, 60.0), (40.0, 80.0))
TO_ITSELF = ((40.0, 30.0),) * 4


def test_a_drawing_is_xml_with_the_texts_of_its_boxes():
    """A drawing is valid XML, whatever characters its texts have; each box has its nodes."""
    drawn = ET.fromstring(str(draw(BOXES, arrangement(STRAIGHT, BENT), ("n0", "n1 n2"))))
    boxes = drawn.findall("{*}g")
    assert [[text.text for text in box.findall("{*}text")] for box in boxes] == [["x < 1", "f32[2]"], ['a "b" & c']]
    assert [(box.get("class"), box.get("data-n")) for box in boxes] == [("n-input", "n0"), (None, "n1 n2")]
    assert drawn.get("viewBox") == f"-6 -6 {drawn.get('width')} {drawn.get('height')}"


def test_a_line_is_drawn_as_one():
    """A curve with collinear control points is straight; each edge has one arrowhead."""
    curves, heads = (
        path.get("d")
        for path in ET.fromstring(str(draw(BOXES, arrangement(STRAIGHT, BENT), ("", "")))).findall("{*}path")
    )
    assert curves == "M40 30L40 80M40 30C90 45 90 60 40 80"
    assert re.findall(r"M(\d+ \d+)l", heads) == ["40 80", "40 80"]


@pytest.mark.parametrize("curves", [(), (TO_ITSELF,)])
def test_a_drawing_without_length(curves):
    """A drawing without edges, or with an edge of length 0, has no NaN."""
    drawn = str(draw(BOXES, arrangement(*curves), ("", "")))
    assert "nan" not in drawn and "inf" not in drawn and "-0 " not in drawn
    assert drawn.count("<path") == (2 if curves else 0)


@pytest.mark.parametrize("pale", [False, True])
def test_an_image_is_the_same_drawing(pale):
    """The data URL of an image contains the same drawing, without double quotes."""
    drawn = draw(BOXES, arrangement(BENT), ("n0", "n1 100%"), pale=pale)
    address = str(data_url(drawn))
    assert '"' not in address and "\n" not in address and "#" not in address
    head, _, rest = address.partition(",")
    assert head == "data:image/svg+xml" and urllib.parse.unquote(rest) == str(drawn)
    assert ("stroke-dasharray" in drawn) is pale
