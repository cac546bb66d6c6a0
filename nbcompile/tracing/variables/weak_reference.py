"""Weak references, whose call returns the referent.

    weakref.ref(x)() * 2        x * 2
    self.parent().scale         the address L['self'].parent()

In torch: WeakRefVariable in torch/_dynamo/variables/misc.py. Read next:
objects.py
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise


@dataclass(frozen=True, slots=True)
class ReferenceKey:
    """Key of a reference in a dict: it has the hash of its referent, and equals no other key."""

    referent: Hashable

    def __hash__(self) -> int:
        return hash(self.referent)


class WeakReferenceVariable(VariableTracker):
    """A ``weakref.ref``, from outside or created by the traced code."""

    def __init__(self, referent: VariableTracker, more: Arguments = (), source: Source | None = None) -> None:
        self.referent = referent
        self.more = more
        """The callback, if there is one."""
        self.source = source

    def python_type(self) -> type:
        return weakref.ref

    def describe(self) -> str:
        return "WeakRefVariable()"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ReferenceKey(realise(tracer, self.referent).hash_key(tracer))

    def is_shared(self, tracer: Tracer) -> bool:
        """Return whether it is the one reference that all users of its object get: it has no callback."""
        if self.source is None:
            return all(given.is_constant() and given.constant() is None for given in self.more)
        real = tracer.real_value(self.source)
        if type(real) is not weakref.ref:
            return False
        callback = tracer.wrap(real.__callback__, AttrSource(self.source, "__callback__"))
        return realise(tracer, callback).is_constant()

    def truth(self, tracer: Tracer) -> bool:
        return True

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if keywords:
            tracer.raise_exception(TypeError, "weakref() takes no keyword arguments")
        if arguments:
            tracer.raise_exception(TypeError, f"weakref expected 0 arguments, got {len(arguments)}")
        return realise(tracer, self.referent)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return reconstruction.shared(self, lambda: self._make(reconstruction))

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        given = tuple(map(reconstruction.recipe, (self.referent, *self.more)))
        return Call(Constant(weakref.ref, "ref"), given)
