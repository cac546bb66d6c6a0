"""``id(x)`` of a value that has no address while tracing: it distinguishes objects, and its number is unknown.

    memo[id(x)] = y        found again under the same x
    id(x) == id(y)         x is y
    return id(x)           computed after the graph

In torch: torch/_dynamo/variables/constant.py (FakeIdVariable). Read next:
nbcompile/tracing/polyfills/copying.py
"""

from __future__ import annotations

from collections.abc import Hashable

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker


class IdVariable(VariableTracker):
    """The identity of a value that is traced."""

    def __init__(self, value: VariableTracker) -> None:
        self.value = value

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return f"FakeIdVariable({self.value.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        # One object may have several trackers if it is a constant: its own identity is the key.
        return ("id", id(self.value.constant() if self.value.is_constant() else self.value))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Call(Constant(id, "id"), (reconstruction.recipe(self.value),))
