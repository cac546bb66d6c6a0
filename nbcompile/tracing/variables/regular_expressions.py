"""Compiled patterns and matches, which are evaluated on known text while tracing.

    NAME.match("layer.3").group(1)     "3"
    NAME.sub(f, "layer.3")             f is traced, with each match (polyfills/substitution.py)

In torch: ConstantLikeVariable of torch/_dynamo/variables/misc.py. Read next:
nbcompile/tracing/variables/ranges.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

from nbcompile.capture.recipe import Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.polyfills import substitution
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import TupleVariable

RegularExpression = re.Pattern[str] | re.Pattern[bytes] | re.Match[str] | re.Match[bytes]
FUNCTIONS = (
    re.compile, re.search, re.match, re.fullmatch, re.split, re.findall, re.escape,
)  # fmt: skip
"""Functions of re that are folded if their arguments are known; an argument of ``sub`` may be a function."""

_SUBSTITUTIONS: dict[str, Callable[..., object]] = {"sub": substitution.pattern_sub, "subn": substitution.pattern_subn}
"""Methods of a pattern that accept a function."""


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
        replacement = given[0] if given else named_ones.get("repl")
        if name in _SUBSTITUTIONS and replacement is not None and _is_function(tracer, replacement):
            return self._substitute(tracer, name, replacement, given, named_ones)
        if not all(each.is_constant() for each in (*given, *named_ones.values())):
            self.no_method(name)
        values = [each.constant() for each in given]
        named = {key: each.constant() for key, each in named_ones.items()}
        found: Any = tracer.evaluate(getattr(self.value, name), values, named)
        if name == "finditer":
            return tracer.iterator([tracer.constant_or_wrap(match) for match in found])
        return tracer.constant_or_wrap(found)

    def _substitute(
        self, tracer: Tracer, name: str, function: VariableTracker, given: Arguments, named: Keywords
    ) -> VariableTracker:
        """``PATTERN.sub(function, text)``: C finds the matches, and raises for invalid arguments."""
        others = [each for each in (*given, *named.values()) if each is not function]
        if not all(each.is_constant() for each in others):
            self.no_method(name)
        # The real ``sub`` is called with ``list.append`` instead of the function.
        # This records the matches in their order, and returns None, which ``sub``
        # replaces by ""; the text that it returns is used only if there was no match.
        matches: list[re.Match[str] | re.Match[bytes]] = []
        values = [matches.append if each is function else each.constant() for each in given]
        keyed = {key: matches.append if each is function else each.constant() for key, each in named.items()}
        unchanged = tracer.evaluate(getattr(self.value, name), values, keyed)
        if not matches:
            return tracer.constant_or_wrap(unchanged)
        found = TupleVariable([tracer.constant_or_wrap(match) for match in matches])
        return tracer.call_python(_SUBSTITUTIONS[name], function, ConstantVariable(matches[0].string), found)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.call_method(tracer, "__getitem__", [key], {})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return Constant(self.value, type(self.value).__name__)


def _is_function(tracer: Tracer, value: VariableTracker) -> bool:
    return not value.is_constant() and bool(tracer.call(tracer.wrap(callable, None), [value]).constant())


def _text(tracer: Tracer, value: VariableTracker) -> VariableTracker:
    """An argument; for an object of a subclass of str, its string."""
    value = realise(tracer, value)
    return value.base_items if isinstance(value, ObjectVariable) and value.base_items is not None else value
