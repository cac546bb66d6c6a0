"""An exception that the traced program raised, on its way to the traced handler.

It travels as a Python exception through our own handlers until a translator
whose exception table covers the instruction catches it.

In torch: torch/_dynamo/exc.py (ObservedException). Read next:
nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbcompile.tracing.variables.base import VariableTracker


class ObservedException(Exception):
    """Carries the tracker of the traced program's exception object."""

    def __init__(self, value: VariableTracker) -> None:
        super().__init__(value.describe())
        self.value = value


class MustBreakEarlier(Exception):
    """An instruction that was traced cannot have been: the trace starts over, and breaks there."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Unhashable(Exception):
    """The traced program hashes what cannot be hashed: becomes its TypeError."""
