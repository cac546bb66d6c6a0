"""The text of a PDF from Chromium, as a reader would copy it, without spaces.

Chromium writes glyph numbers and, for each font, a table from these to characters (PDF 32000-1, 9.10.3).
"""

from __future__ import annotations

import re
import unicodedata
import zlib


def text_of(pdf: bytes) -> str:
    """All characters of all pages, in order of drawing."""
    objects = {int(number): body for number, body in re.findall(rb"(?s)(?:^|\n)(\d+) 0 obj\s*(.*?)\nendobj", pdf)}
    fonts = {
        number: _table(_stream(objects[int(found[1])]))
        for number, body in objects.items()
        if (found := re.search(rb"/ToUnicode (\d+) 0 R", body))
    }
    pages = [int(found) for body in objects.values() for found in re.findall(rb"/Contents (\d+) 0 R", body)]
    return letters("".join(_drawn(_stream(objects[page]), fonts) for page in sorted(pages)))


def letters(text: str) -> str:
    """A text without spaces and ligatures, for comparisons."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


def _stream(body: bytes) -> bytes:
    return zlib.decompress(re.split(rb"stream\r?\n", body, maxsplit=1)[1])


def _table(cmap: bytes) -> dict[int, str]:
    """``<0012> <0041>`` is one glyph, ``<0012> <0015> <0041>`` is four in a row."""
    table: dict[int, str] = {}
    for kind, block in re.findall(rb"(?s)beginbf(char|range)(.*?)endbf", cmap):
        for line in block.splitlines():
            numbers = re.findall(rb"<([0-9A-Fa-f]+)>", line)
            if not numbers:
                continue
            first, last = int(numbers[0], 16), int(numbers[1 if kind == b"range" else 0], 16)
            text = bytes.fromhex(numbers[-1].decode()).decode("utf-16-be")
            table |= {glyph: text[:-1] + chr(ord(text[-1]) + glyph - first) for glyph in range(first, last + 1)}
    return table


def _drawn(stream: bytes, fonts: dict[int, dict[int, str]]) -> str:
    said, font = [], {}
    for name, glyphs in re.findall(rb"/F(\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>", stream):
        if name:
            font = fonts[int(name)]
        else:
            said += [font.get(int(glyphs[at : at + 4], 16), "") for at in range(0, len(glyphs), 4)]
    return "".join(said)
