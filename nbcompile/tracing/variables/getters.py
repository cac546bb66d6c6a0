"""``operator.itemgetter``, ``attrgetter`` and ``methodcaller``: C objects that call the result of a polyfill.

    get = itemgetter(1)         GetterVariable(itemgetter, <function of the polyfill>)
    get(xs)                     the function is traced
    hasattr(get, "__name__")    looked up on the class: False

In torch: torch/_dynamo/polyfills/operator.py replaces them by functions. Read next:
nbcompile/tracing/polyfills/builtins.py
"""

from __future__ import annotations

import operator

from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker

GETTERS: tuple[type, ...] = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


class GetterVariable(VariableTracker):
    """A getter, from outside or created by the traced code."""

    def __init__(self, cls: type, function: VariableTracker, arguments: Arguments, keywords: Keywords) -> None:
        self.cls = cls
        self.function = function
        self.arguments = arguments
        self.keywords = keywords

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"{self.cls.__name__}(...)"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(self.function, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        given = tuple(map(reconstruction.recipe, self.arguments))
        named = tuple((name, reconstruction.recipe(value)) for name, value in self.keywords.items())
        return reconstruction.shared(self, lambda: Call(Constant(self.cls, self.cls.__name__), given, named))
