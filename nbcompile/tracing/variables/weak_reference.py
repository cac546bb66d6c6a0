"""References that do not keep alive what they refer to: calling one gives it.

    weakref.ref(x)() * 2        x * 2
    self.parent().scale         the address L['self'].parent()

In torch: WeakRefVariable in torch/_dynamo/variables/misc.py. Read next:
objects.py
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise


class WeakReferenceVariable(VariableTracker):
    """A ``weakref.ref``, from outside or made by the traced code."""

    def __init__(self, referent: VariableTracker, more: Arguments = (), source: Source | None = None) -> None:
        self.referent = referent
        self.more = more
        """The callback, where one was given."""
        self.source = source

    def python_type(self) -> type:
        return weakref.ref

    def describe(self) -> str:
        return "WeakRefVariable()"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("weakref", realise(tracer, self.referent).hash_key(tracer))

    def truth(self, tracer: Tracer) -> bool:
        return True

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return realise(tracer, self.referent)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        given = tuple(map(reconstruction.recipe, (self.referent, *self.more)))
        return reconstruction.shared(self, lambda: Call(Constant(weakref.ref, "ref"), given))
