"""``weakref.ref``: an address of an object that does not keep it alive.

    ref()          the object, guarded under the address  L['ref']()

In torch: torch/_dynamo/variables/misc.py (WeakRefVariable). Read next: objects.py
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

from nbcompile.capture.source import ReferentSource, Source
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, UnknownVariable, VariableTracker, realise


class WeakReferenceVariable(UnknownVariable):
    """One that the program was given."""

    value: weakref.ref[Any]

    def __init__(self, value: weakref.ref[Any], source: Source | None) -> None:
        super().__init__(value, source)

    def describe(self) -> str:
        return f"WeakRefVariable({type(self.value).__name__})"

    def referent(self, tracer: Tracer) -> VariableTracker:
        """What it refers to, or None."""
        return tracer.wrap(self.value(), None if self.source is None else ReferentSource(self.source))

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if arguments or keywords:
            return super().call(tracer, arguments, keywords)
        return self.referent(tracer)

    def hash_key(self, tracer: Tracer) -> Hashable:
        return realise(tracer, self.referent(tracer)).hash_key(tracer)
