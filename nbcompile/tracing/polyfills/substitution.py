"""``re.sub`` and ``re.subn`` with a function for replacement, and ``re.finditer``, written in Python.

    re.sub("[0-9]", f, "a1b2")     the matches are known while tracing; f is traced with each of them

In torch: nothing by this name; torch/_dynamo/variables/misc.py calls the function while tracing. Read next:
nbcompile/tracing/variables/regular_expressions.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def sub(pattern: Any, repl: Any, string: Any, count: int = 0, flags: int = 0) -> Any:
    """``re.sub``."""
    return re.compile(pattern, flags).sub(repl, string, count)


def subn(pattern: Any, repl: Any, string: Any, count: int = 0, flags: int = 0) -> Any:
    """``re.subn``."""
    return re.compile(pattern, flags).subn(repl, string, count)


def finditer(pattern: Any, string: Any, flags: int = 0) -> Any:
    """``re.finditer``."""
    return re.compile(pattern, flags).finditer(string)


def pattern_sub(function: Callable[[Any], Any], text: Any, matches: tuple[Any, ...]) -> Any:
    """``re.Pattern.sub``, from the matches that it finds."""
    pieces, end = [], 0
    for match in matches:
        if end < match.start():
            pieces.append(text[end : match.start()])
        piece = function(match)
        if piece is not None:  # C leaves it out
            pieces.append(piece)
        end = match.end()
    if end < len(text):
        pieces.append(text[end:])
    return text[:0].join(pieces)


def pattern_subn(function: Callable[[Any], Any], text: Any, matches: tuple[Any, ...]) -> Any:
    """``re.Pattern.subn``, from the matches that it finds."""
    return pattern_sub(function, text, matches), len(matches)
