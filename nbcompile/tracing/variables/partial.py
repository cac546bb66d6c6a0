"""``functools.partial``: a callable with some of its arguments, and with attributes of its own.

    p = partial(f, b=3)
    partial(p, 1)                  partial(f, 1, b=3)
    p.tag = 5; partial(p, 1)       its func is p: a partial with attributes is not merged

In torch: torch/_dynamo/variables/functions.py (FunctoolsPartialVariable). Read
next: nbcompile/tracing/calls/library.py
"""

from __future__ import annotations

import functools
from typing import Any

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, LazyVariable, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable, dict_view_of
from nbcompile.tracing.variables.mappings import DictVariable, Entry
from nbcompile.tracing.variables.sequences import TupleVariable

PARTS = ("func", "args", "keywords")
"""Attributes that cannot be stored."""


class PartialVariable(VariableTracker):
    """A partial, from outside or created by the traced code."""

    def __init__(
        self,
        function: VariableTracker,
        arguments: VariableTracker,
        keywords: VariableTracker,
        source: Source | None = None,
        value: functools.partial[object] | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self.source = source
        self.value = value
        """The real one; None for one that the traced code created."""
        self.has_dict = False
        """True if its ``__dict__`` was read, which exists from then on."""

    def python_type(self) -> type:
        return functools.partial

    def identity(self) -> object:
        return self if self.value is None else self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in PARTS:
            return self._part(name)
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None:
            return stored
        if name == "__dict__":
            self.has_dict = True
            if self.value is not None and self._members():
                return dict_view_of(tracer, self, self.value.__dict__, self._lazy)
            return InstanceDictVariable(tracer, self, self._members(), self._lazy)
        if name in self._members() and not tracer.side_effects.is_deleted(self, name):
            return self._lazy(tracer, name, self._members()[name])
        if not hasattr(functools.partial, name):
            # A partial has a dict, which may have the name in another call.
            if self.source is not None:
                tracer.guard(self.source, GuardKind.HASATTR, (name, name in self._members()))
            tracer.raise_exception(AttributeError, f"'functools.partial' object has no attribute '{name}'")
        if name == "__doc__":
            return self._documentation(tracer)
        return super().get_attribute(tracer, name)

    def _part(self, name: str) -> VariableTracker:
        # CPython merges a partial of a partial only if the inner one has no dict of its own, which tracing cannot test
        # for a real one without creating that dict.
        if isinstance(self.function, PartialVariable) and self.value is None and self.function.may_be_merged():
            raise breaks.unsupported(
                breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name="partial of a partial"
            )
        return {"func": self.function, "args": self.arguments, "keywords": self.keywords}[name]

    def may_be_merged(self) -> bool:
        """True if Python may merge this one into a partial of it, which depends on its dict."""
        return self.value is not None and not self._members()

    def _members(self) -> dict[str, object]:
        """The real one's own attributes, without reading its ``__dict__``, which would create it."""
        # ``__reduce__`` returns the dict without creating one.
        state: tuple[Any, ...] = (None,) if self.value is None else self.value.__reduce__()[2]  # type: ignore[assignment]
        return state[-1] or {}

    def _lazy(self, tracer: Tracer, name: str, value: object) -> VariableTracker:
        """One of the real one's own attributes."""
        if self.source is None:
            return tracer.wrap(value, None)
        tracker = LazyVariable(value, AttrSource(self.source, name))
        tracer.output.left_unread.append(tracker)
        return tracker

    def _documentation(self, tracer: Tracer) -> VariableTracker:
        """Docstring of the class, if the object has none."""
        if self.source is not None:
            tracer.guard(AttrSource(self.source, "__doc__"), GuardKind.EQUALS_MATCH, functools.partial.__doc__)
        return ConstantVariable(functools.partial.__doc__)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if name in PARTS:
            tracer.raise_exception(AttributeError, "readonly attribute")
        if name in ("__dict__", "__class__"):
            super().set_attribute(tracer, name, value)
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def with_more(self, tracer: Tracer, arguments: Arguments, named: dict[str, Entry]) -> PartialVariable:
        """``functools.partial(self, ...)``: as in C, merged if it has no dict of attributes."""
        stored = tracer.side_effects.stored_attributes(self)
        # As in C: merge into one partial, or use the inner one as the function.
        if self.value is not None or self.has_dict or stored:
            lost = self.value is None and not any(stored.values())  # a reconstructed one would have no dict
            if lost or (self.value is not None and stored and not self._members()):
                context = f"partial({self.describe()}, ...)"
                raise breaks.unsupported(breaks.UNSUPPORTED_CALL, context, name="partial of a partial that changed")
            return PartialVariable(self, TupleVariable(list(arguments)), DictVariable(tracer, named.values()))
        merged = {**self.named(tracer), **named}
        given = [*self.arguments.unpack(tracer), *arguments]
        return PartialVariable(self.function, TupleVariable(given), DictVariable(tracer, merged.values()))

    def named(self, tracer: Tracer) -> dict[str, Entry]:
        """The partial's keywords, by name."""
        assert isinstance(self.keywords, DictVariable)
        keys = self.keywords.keys(tracer)
        return {str(key.constant()): (key, self.keywords.get_item(tracer, key)) for key in keys}

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        kept = {name: value for name, (_, value) in self.named(tracer).items()}
        tracer.hand_over(self, self.function)
        # Keywords of the call replace those of the partial.
        return tracer.call(self.function, [*self.arguments.unpack(tracer), *arguments], {**kept, **keywords})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        if self.value is not None:
            return Constant(self.value, "partial")
        return reconstruction.shared(
            self, lambda: self._make(reconstruction), fill=lambda: reconstruction.attributes(self)
        )

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        assert isinstance(self.keywords, DictVariable)
        tracer = reconstruction.tracer
        arguments = tuple(map(reconstruction.recipe, self.arguments.unpack(tracer)))
        named = tuple(
            (str(key.constant()), reconstruction.recipe(self.keywords.get_item(tracer, key)))
            for key in self.keywords.keys(tracer)
        )
        function = reconstruction.recipe(self.function)
        return Call(Constant(functools.partial, "partial"), (function, *arguments), named)
