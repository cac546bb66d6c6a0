"""``functools.partial``: a callable with some of its arguments.

In torch: torch/_dynamo/variables/functions.py (FunctoolsPartialVariable). Read
next: nbcompile/tracing/functions/library.py
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.mappings import DictVariable, Entry

if TYPE_CHECKING:
    from nbcompile.tracing.reconstruction import Reconstruction


class PartialVariable(VariableTracker):
    """A partial, from outside or made by the traced code."""

    def __init__(
        self,
        function: VariableTracker,
        arguments: VariableTracker,
        keywords: VariableTracker,
        source: Source | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self.source = source

    def python_type(self) -> type:
        return functools.partial

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        known = {"func": self.function, "args": self.arguments, "keywords": self.keywords}
        return known[name] if name in known else super().get_attribute(tracer, name)

    def named(self, tracer: Tracer) -> dict[str, Entry]:
        """Its keywords, by name."""
        assert isinstance(self.keywords, DictVariable)
        keys = self.keywords.keys(tracer)
        return {str(key.constant()): (key, self.keywords.get_item(tracer, key)) for key in keys}

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        kept = {name: value for name, (_, value) in self.named(tracer).items()}
        tracer.hand_over(self, self.function)
        return tracer.call(self.function, [*self.arguments.unpack(tracer), *arguments], {**kept, **keywords})

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        assert isinstance(self.keywords, DictVariable)
        tracer = reconstruction.tracer
        arguments = tuple(map(reconstruction.recipe, self.arguments.unpack(tracer)))
        named = tuple(
            (str(key.constant()), reconstruction.recipe(self.keywords.get_item(tracer, key)))
            for key in self.keywords.keys(tracer)
        )
        function = reconstruction.recipe(self.function)
        return reconstruction.shared(
            self, lambda: Call(Constant(functools.partial, "partial"), (function, *arguments), named)
        )
