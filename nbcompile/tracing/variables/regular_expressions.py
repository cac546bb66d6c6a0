"""Compiled patterns and matches: what is asked of them about known text is answered while tracing.

    NAME.match("layer.3").group(1)     "3"

In torch: ConstantLikeVariable of torch/_dynamo/variables/misc.py. Read next:
nbcompile/tracing/variables/ranges.py
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from nbcompile.capture.recipe import Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.objects import ObjectVariable

RegularExpression = re.Pattern[str] | re.Pattern[bytes] | re.Match[str] | re.Match[bytes]
FUNCTIONS = (
    re.compile, re.search, re.match, re.fullmatch, re.sub, re.subn, re.split, re.findall, re.escape,
)  # fmt: skip
"""Functions of re that are computed while tracing if their arguments are known."""


class RegularExpressionVariable(VariableTracker):
    """A pattern or a match. Neither ever changes."""

    def __init__(self, value: RegularExpression, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"ConstantLikeVariable({type(self.value).__name__})"

    def is_constant(self) -> bool:
        return True

    def constant(self) -> object:
        return self.value

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def truth(self, tracer: Tracer) -> bool:
        return True

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        found = tracer.evaluate(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(found) else tracer.constant_or_wrap(found)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = [_text(tracer, each) for each in arguments]
        named_ones = {key: _text(tracer, each) for key, each in keywords.items()}
        if not all(each.is_constant() for each in (*given, *named_ones.values())):
            self.no_method(name)
        values = [each.constant() for each in given]
        named = {key: each.constant() for key, each in named_ones.items()}
        return tracer.constant_or_wrap(tracer.evaluate(getattr(self.value, name), values, named))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.call_method(tracer, "__getitem__", [key], {})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return Constant(self.value, type(self.value).__name__)


def _text(tracer: Tracer, value: VariableTracker) -> VariableTracker:
    """An argument; of an object of a subclass of str, what it holds."""
    value = realise(tracer, value)
    return value.base_items if isinstance(value, ObjectVariable) and value.base_items is not None else value
