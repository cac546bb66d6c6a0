"""Warnings of operators in an entry: a process that loads a graph shows what the one that traced it showed.

    [["class", "builtins", "UserWarning"], "A window was not provided ...", null, 1]
    the category's description             text                             file  line

Eager mode warns in each process. No operator of a loaded graph is run by Python, so nothing else would warn. The key
of an entry does not contain the function's file, so a line of it is counted from the function's first line.

In torch: nothing; there a process that loads kernels traces the function again, which warns.
Read next: nbcompile/capture/operator_warnings.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import CodeType
from typing import Any

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.capture.operator_warnings import OperatorWarning
from nbcompile.fast.disk_cache import object_lookup


def write(shown: Iterable[OperatorWarning], code: CodeType) -> list[list[Any]]:
    """Return the warnings as data, a row for each.

    Raises:
        NotStorable: the category has no name, or its instances are not created from a text.
    """
    return [_row(warning, code) for warning in shown]


def _row(warning: OperatorWarning, code: CodeType) -> list[Any]:
    text = str(warning.message)
    if str(warning.category(text)) != text:
        raise NotStorable(f"a {warning.category.__qualname__} is not created from its text")
    own = warning.file == code.co_filename
    file, line = (None, warning.line - code.co_firstlineno) if own else (warning.file, warning.line)
    return [object_lookup.findable(warning.category), text, file, line]


def read(rows: list[list[Any]], code: CodeType) -> list[OperatorWarning]:
    """Return the warnings of an entry, at the lines of this process's function.

    Raises:
        Unreadable: a category is not there, or is another class.
    """
    return [_warning(row, code) for row in rows]


def _warning(row: list[Any], code: CodeType) -> OperatorWarning:
    described, text, file, line = row
    category = object_lookup.find(described)
    if not (isinstance(category, type) and issubclass(category, Warning)):
        raise Unreadable(f"{category!r} is no category of warnings")
    at = (code.co_filename, line + code.co_firstlineno) if file is None else (file, line)
    return OperatorWarning(category(text), category, *at)


def filtered(found: Iterable[OperatorWarning]) -> list[OperatorWarning]:
    """Select the warnings that the filters of this process show.

    Raises:
        Unreadable: a filter makes an exception of one. Then the operator must raise it, where it runs.
    """
    return [warning for warning in found if _passes(warning)]


def _passes(warning: OperatorWarning) -> bool:
    with warnings.catch_warnings(record=True) as raised:
        try:
            warnings.warn_explicit(warning.message, warning.category, warning.file, warning.line)
        except Warning as error:
            raise Unreadable(f"a filter raises {type(error).__name__}") from None
    return bool(raised)
