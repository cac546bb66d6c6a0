"""Pictures of the table in docs/design/observability.md: the shown part of an output, and the PNG."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

pytest.importorskip("playwright", reason="it is in the extra `dev`")

from tests.observe import pictures
from tests.observe.page_commands import ROWS


def test_the_first_lines_are_shown():
    """The log prefix is removed, long lines wrap, omitted lines are counted, and the text is escaped."""
    log = "V1125 22:57:04.073000 25789 nbcompile/observe/torch_logs.py:94] [0/0] [__graph_breaks] <b>\n"
    page = pictures.terminal(log + "x" * (pictures.COLUMNS + 1) + "\n" + "line\n" * pictures.LINES)
    assert ">[0/0] [__graph_breaks] &lt;b&gt;\n" in page
    assert f"{'x' * pictures.COLUMNS}\nx\n" in page
    assert "... 3 more lines" in page


@pytest.mark.parametrize("width", [3, 4])
def test_a_picture_of_few_colours(width):
    """With at most sixteen colours two pixels are one byte; white remains white."""
    rows = np.full((2, width, 3), 255, np.uint8)
    rows[1, 1] = 0
    found = pictures.png(rows, 16)
    assert found.startswith(b"\x89PNG")
    assert struct.unpack(">II", found[16:24]) == (width, 2)
    assert b"PLTE\xff\xff\xff" in found
    data = found[found.index(b"IDAT") + 4 : found.index(b"IEND") - 8]
    assert zlib.decompress(data) == bytes([0, 0, 0, 0, 1, 0])


def test_pictures_are_small():
    """All pictures together have less than a megabyte."""
    sizes = [(pictures.TARGET / f"{name}.png").stat().st_size for _, name in ROWS]
    assert sum(sizes) < 1 << 20
    assert max(sizes) < 1 << 17
