"""``id(x)`` and ``hash(x)`` of a value that tracing has no number for: Python computes them after the graph.

    memo[id(x)] = y        found again under the same x
    id(x) == id(y)         x is y
    return id(x)           computed after the graph
    return hash((x, 1))    the same, of a tensor, an object that is hashed by identity, or a tuple of one

In torch: torch/_dynamo/variables/constant.py (FakeIdVariable). Read next:
nbcompile/tracing/polyfills/copying.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.keys import TracedKey
from nbcompile.tracing.variables.weak_reference import ReferenceKey


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


class HashVariable(VariableTracker):
    """The hash of a value whose key in a traced dict has another hash (``is_hash_of_value``)."""

    def __init__(self, function: Callable[[object], int], value: VariableTracker, key: Hashable) -> None:
        self.function = function
        self.value = value
        self.key = key

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return f"hash({self.value.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("hash", self.key)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Call(Constant(self.function, "hash"), (reconstruction.recipe(self.value),))


def is_hash_of_value(key: Hashable, value: VariableTracker) -> bool:
    """True if the key of a value in a traced dict has the value's own hash.

    Keys of trackers without a constant are substitutes (``("object", id)``, ``("tensor", id)``), but for functions,
    classes and objects in C, which are their own keys.
    """
    if value.is_constant():
        return True
    if isinstance(key, tuple):
        items = getattr(value, "items", ())
        return value.python_type() is tuple and all(map(is_hash_of_value, key, items))
    if isinstance(key, TracedKey):
        hash(key)
        return key.is_exact
    return not isinstance(key, (frozenset, ReferenceKey))
