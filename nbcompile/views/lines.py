"""Prose, tables and stacks as lines of text below 80 columns.

In torch: nothing. Read next: nbcompile/views/text.py
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from nbcompile.record.model import StackLine
from nbcompile.views import annotated_source

WIDTH = 79

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """The text with line breaks and other control characters written as escapes."""
    # A line break in a value (a text that a guard compares) would end a row of the table.
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def encodable(text: str) -> str:
    """The text with lone surrogates, which no file or terminal accepts, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Wrap prose to 80 columns; existing line breaks are preserved."""
    lines: list[str] = []
    for part in text.split("\n"):
        indent = rest if lines else first
        if part and part.isprintable() and part == part.strip() and len(indent) + len(part) <= WIDTH - 4:
            lines.append(indent + part)  # the common case, without the slower wrapping: a model has thousands of guards
            continue
        lines += textwrap.wrap(
            part, WIDTH - 4, initial_indent=indent, subsequent_indent=rest,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines


def columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their content, none wider than 32: a longer cell is not shortened."""
    widths = [min(max(len(row[index]) for row in rows), 32) for index in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def stack(lines: tuple[StackLine, ...]) -> Iterator[str]:
    """The user's stack, with carets below the expression."""
    for line in lines:
        yield f'File "{line.file}", line {line.line}, in {line.function}'
        if line.code:
            yield f"  {line.code}"
            if underline := annotated_source.carets(line):
                yield f"  {underline}"
