"""Caches of ``functools.lru_cache`` that a program creates in compiled code: by the residual program, or by Python.

    cache = new_cache(f, None, False, functools._CacheInfo)
    fill_cache(cache, [((1,), {}, result)], 3, 1)      f is not called
    cache.cache_info()                                 CacheInfo(hits=3, misses=1, maxsize=None, currsize=1)

A cache keeps its entries in C, and takes its function once and for all. Between
the two is a partial, whose function can be exchanged: while the cache is filled
by calls, it returns the results that are known already. A partial adds no line
to a traceback.

In torch: nothing. Read next: nbcompile/tracing/variables/caches.py
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.support.weak_identity_dict import WeakIdentityDict

Entry = tuple[Sequence[Any], Mapping[str, Any], Any]
"""Positional arguments, keyword arguments, result."""


class ExchangeableFunction(functools.partial[Any]):
    """The function of a cache that compiled code created."""


_cached: WeakIdentityDict[Any, bool] = STATE.add("support.created_caches._cached", WeakIdentityDict(), Lifetime.OWNER)
"""Functions for which Python created a cache below a compiled call."""


class _NoResultError(Exception):
    """Raised by a call that counts as a miss, and adds no entry."""


def new_cache(function: Callable[..., Any], maxsize: int | None, typed: bool, info: Callable[..., Any]) -> Any:
    """``functools._lru_cache_wrapper(function, maxsize, typed, info)``, to be filled."""
    exchangeable = ExchangeableFunction(len)
    _exchange(exchangeable, function)  # the constructor would take apart a function that is a partial, too
    return functools._lru_cache_wrapper(exchangeable, maxsize, typed, info)  # type: ignore[call-arg]


def fill_cache(cache: Any, entries: Sequence[Entry], hits: int, misses: int) -> None:
    """Put entries into a new cache, the least recently used one first."""
    exchangeable = _function_of(cache)
    assert exchangeable is not None
    function = exchangeable.func
    # Calls that had begun when the cache was cleared have added entries, too: their misses are not counted.
    begun = max(0, len(entries) - misses)

    def fill(entry: Entry, inner: Callable[[], object]) -> None:
        arguments, keywords, result = entry

        def returning(*_arguments: Any, **_keywords: Any) -> Any:
            inner()
            return result

        _exchange(exchangeable, returning)
        cache(*arguments, **keywords)

    try:
        fill_begun: Callable[[], object] = cache.cache_clear
        for entry in entries[:begun]:
            fill_begun = functools.partial(fill, entry, fill_begun)  # the first entry is the innermost call's
        fill_begun()
        for entry in entries[begun:]:
            fill(entry, bool)
        _exchange(exchangeable, _raise)
        for _ in range(misses - len(entries)):
            with contextlib.suppress(_NoResultError):
                cache(object())
        for _ in range(hits):  # of the entry used last, which stays the last one
            arguments, keywords, _ = entries[-1]
            cache(*arguments, **keywords)
    finally:
        _exchange(exchangeable, function)


def creates_cache(code: CodeType, scope: dict[str, object]) -> bool:
    """Return whether a function is one of the two of ``functools`` that create all caches."""
    return "_lru_cache_wrapper" in code.co_names and scope is vars(functools)


def note_creation(variables: Mapping[str, object]) -> None:
    """Note the function that one of them is about to give a cache."""
    function = variables.get("user_function", variables.get("maxsize"))
    if callable(function):
        with contextlib.suppress(TypeError):  # a callable that has no weak references
            _cached[function] = True


def is_created_cache(cache: object) -> bool:
    """Return whether :func:`new_cache` created a cache, or Python did below a compiled call."""
    if not isinstance(cache, functools._lru_cache_wrapper):
        return False
    return _function_of(cache) is not None or _cached.get(vars(cache).get("__wrapped__"), False)


def _function_of(cache: Any) -> ExchangeableFunction | None:
    # No attribute leads to the function in C; ``__wrapped__`` is whatever was stored there.
    return next((part for part in gc.get_referents(cache) if type(part) is ExchangeableFunction), None)


def _exchange(exchangeable: ExchangeableFunction, function: Callable[..., Any]) -> None:
    exchangeable.__setstate__((function, (), {}, None))  # type: ignore[attr-defined]


def _raise(*_arguments: Any, **_keywords: Any) -> Any:
    raise _NoResultError
