"""An exception that the traced program raised, on its way to the traced handler.

It travels as a Python exception through our own handlers until a translator
whose exception table covers the instruction catches it.

In torch: torch/_dynamo/exc.py (ObservedException). Read next:
nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations


class MustBreakEarlier(Exception):
    """An instruction that was traced cannot have been: the trace starts over, and breaks there."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Unhashable(Exception):
    """The traced program hashes what cannot be hashed: becomes its TypeError."""


class ComptimeError(Exception):
    """An error of a function that ``comptime`` called; the compilation raises it as the program's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
