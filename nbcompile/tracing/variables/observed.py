"""Exceptions of the traced program, while tracing unwinds to their handlers.

In torch: ObservedException in torch/_dynamo/exc.py. Read next: nbcompile/tracing/variables/exceptions.py
"""

from __future__ import annotations

from nbcompile.tracing.variables.base import VariableTracker


class ObservedException(Exception):
    """Exception that carries the tracker of the traced program's exception object."""

    def __init__(self, value: VariableTracker, has_context: bool = False) -> None:
        super().__init__(value.describe())
        self.value = value
        value.was_raised = True
        self.has_context = has_context
        """True once its ``__context__`` is set, at the first raise only."""
