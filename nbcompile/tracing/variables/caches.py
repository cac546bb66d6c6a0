"""Functions under ``functools.lru_cache`` and ``functools.cache``.

    g = functools.cache(f)      in the traced code: entries, hits and misses are those of Python
    TABLE = functools.cache(f)  outside: its function is traced as if it had no cache
    g, after a graph break      a cache with the entries so far; its calls run in Python

In torch: WrapperUserFunctionVariable in torch/_dynamo/variables/functions.py.
Read next: nbcompile/support/created_caches.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Build, Call, Constant, Evaluate, FromSource, Mutation, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.support.created_caches import fill_cache, new_cache
from nbcompile.tracing import breaks
from nbcompile.tracing.graph.body import creation_order
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.class_facts import is_class_member
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.functions import BuiltinGetVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable

CACHE: Any = functools._lru_cache_wrapper
BEFORE_KEYWORDS = object()
"""Separator of positional and keyword arguments in a key."""


class CacheEntry(NamedTuple):
    """A call, and what it returned."""

    key: Hashable
    arguments: tuple[VariableTracker, ...]
    keywords: dict[str, VariableTracker]
    result: VariableTracker


class CacheVariable(VariableTracker):
    """A cache that the traced code created, with its entries."""

    def __init__(self, function: VariableTracker, maxsize: int | None, typed: bool, info: VariableTracker) -> None:
        self.function = function
        self.maxsize = maxsize
        self.typed = typed
        self.info = info
        self.entries: dict[Hashable, CacheEntry] = {}
        self.by_use: list[CacheEntry] = []
        """The entries of a bounded cache, the least recently used one first."""
        self.hits = 0
        self.misses = 0

    def python_type(self) -> type:
        return CACHE

    def describe(self) -> str:
        return f"WrapperUserFunctionVariable({self.function.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("cache", id(self))

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None:
            return stored
        if name == "__dict__":
            return InstanceDictVariable(tracer, self, {})
        if name == "__get__":
            return BuiltinGetVariable(self)
        if hasattr(self, f"method_{name}"):
            return BuiltinMethodVariable(self, name)
        if name in ("__doc__", "__module__"):
            return ConstantVariable(getattr(CACHE, name))
        self.check_attribute(tracer, name)
        return super().get_attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if name in ("__dict__", "__class__"):
            super().set_attribute(tracer, name, value)
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = tuple(realise(tracer, argument) for argument in arguments)
        named = {name: realise(tracer, value) for name, value in keywords.items()}
        # With ``maxsize=0`` CPython computes no key: the program's ``__hash__`` is not called, so it is not traced.
        key = self._key(tracer, given, named) if self.maxsize != 0 else None
        found = self.entries.get(key) if self.maxsize != 0 else None
        tracer.side_effects.mark_mutated(tracer, self)
        if found is not None:
            self.hits += 1
            if self.maxsize is not None:
                self.by_use = [*(entry for entry in self.by_use if entry is not found), found]
            return found.result
        self.misses += 1  # counted also if the function raises
        result = tracer.call(self.function, given, named)
        entry = CacheEntry(key, given, named, result)
        if self.maxsize is None:
            self.entries[key] = entry
        elif self.maxsize and key not in self.entries:  # a call within this one may have stored it
            if len(self.entries) >= self.maxsize:
                del self.entries[self.by_use.pop(0).key]
            self.entries[key] = entry
            self.by_use.append(entry)
        return result

    def _key(self, tracer: Tracer, given: Arguments, named: Keywords) -> Hashable:
        """The key of a call, as of ``functools._make_key``."""
        if len(given) == 1 and not named and not self.typed and given[0].python_type() in (int, str):
            return given[0].hash_key(tracer)
        key = [argument.hash_key(tracer) for argument in given]
        if named:
            key.append(BEFORE_KEYWORDS)
        for name, value in named.items():
            key += [name, value.hash_key(tracer)]
        if self.typed:
            key += [value.python_type() for value in (*given, *named.values())]
        return tuple(key)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        method = getattr(self, f"method_{name}", None)
        if method is None or tracer.side_effects.attribute(self, name) is not None:
            return super().call_method(tracer, name, arguments, keywords)
        if keywords or len(arguments) != (name == "__deepcopy__"):
            placeholders = ([None] * len(arguments), dict.fromkeys(keywords))
            tracer.evaluate(getattr(CACHE(len, None, False, None), name), *placeholders)  # raises Python's error
        found: VariableTracker = method(tracer, *arguments)
        return found

    def method_cache_info(self, tracer: Tracer) -> VariableTracker:
        """``cache.cache_info()``."""
        numbers = (self.hits, self.misses, self.maxsize, len(self.entries))
        return tracer.call(self.info, [ConstantVariable(number) for number in numbers])

    def method_cache_clear(self, tracer: Tracer) -> VariableTracker:
        """``cache.cache_clear()``."""
        tracer.side_effects.mark_mutated(tracer, self)
        self.hits = self.misses = 0
        self.entries.clear()
        self.by_use.clear()
        return ConstantVariable(None)

    def method___copy__(self, tracer: Tracer) -> VariableTracker:
        """``copy.copy(cache)``: itself."""
        return self

    def method___deepcopy__(self, tracer: Tracer, memo: VariableTracker) -> VariableTracker:
        """``copy.deepcopy(cache)``: itself."""
        return self

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.shared(self, lambda: self._make(reconstruction), lambda: self._fill(reconstruction))

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        constants = (Constant(self.maxsize), Constant(self.typed))
        function, info = map(reconstruction.recipe, (self.function, self.info))
        return Call(Constant(new_cache, "new_cache"), (function, *constants, info))

    def _fill(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        recipe = reconstruction.recipe
        entries = []
        for entry in self.entries.values() if self.maxsize is None else self.by_use:
            named = [part for name, value in entry.keywords.items() for part in (Constant(name), recipe(value))]
            parts = (
                Build("tuple", tuple(map(recipe, entry.arguments))),
                Build("dict", tuple(named)),
                recipe(entry.result),
            )
            entries.append(Build("tuple", parts))
        arguments = (recipe(self), Build("tuple", tuple(entries)), Constant(self.hits), Constant(self.misses))
        filling = Evaluate(Call(Constant(fill_cache, "fill_cache"), arguments))
        return (
            (*reconstruction.attributes(self), filling)
            if self.misses or self.entries
            else reconstruction.attributes(self)
        )


class CreatedCacheVariable(VariableTracker):
    """A cache that compiled code created earlier: its entries are unknown, and its calls run in Python."""

    def __init__(self, value: Callable[..., object], source: Source | None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return CACHE

    def describe(self) -> str:
        return "UserDefinedObjectVariable(_lru_cache_wrapper)"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        context = f"{self.describe()}(...)"
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, context, name="a cache that compiled code created")

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if is_class_member(CACHE, name):
            return super().get_attribute(tracer, name)
        raise breaks.unsupported(
            breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name=self.type_name()
        )

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, "cached")


class CachedFunctionVariable(VariableTracker):
    """A function under an ``lru_cache`` from outside: traced without its cache, if it has no side effects."""

    def __init__(self, function: VariableTracker, value: Callable[..., object], source: Source | None) -> None:
        self.function = function
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"WrapperUserFunctionVariable({self.function.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__wrapped__":
            return self.function
        if name in vars(self.value) or not hasattr(self.value, name):  # the wrapper has attributes of its own
            if self.source is not None:
                tracer.guard(self.source, GuardKind.HASATTR, (name, hasattr(self.value, name)))
            found = tracer.evaluate(getattr, (self.value, name))
            return tracer.wrap(found, None if self.source is None else AttrSource(self.source, name))
        if is_class_member(type(self.value), name):
            return super().get_attribute(tracer, name)
        return self.function.get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # The cache is bypassed: tracing must not store trackers or fake tensors in it, and a hit in eager mode only
        # skips work. That is right only for a function without side effects.
        effects, began = tracer.side_effects, next(creation_order)
        changes, deferred = effects.count(), len(effects.deferred)
        result = tracer.call(self.function, arguments, keywords)
        # The cache would prevent a second execution of these. The function may change objects that it created itself.
        if effects.changes_outside(changes, began) or len(effects.deferred) != deferred:
            context = f"{self.describe()} changes an object that it did not create"
            raise breaks.unsupported(breaks.UNSUPPORTED_CALL, context, name="a cached function with side effects")
        return result

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, "cached")
