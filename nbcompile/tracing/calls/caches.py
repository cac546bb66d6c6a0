"""``functools.cache`` and ``functools.lru_cache`` in the traced code: both end in one class in C.

    functools.cache(f)     functools.lru_cache(maxsize=None)(f), traced as it is written
    _lru_cache_wrapper(f, None, False, CacheInfo)      the tracker of a new cache

In torch: nothing; the call breaks the graph. Read next: nbcompile/tracing/variables/caches.py
"""

from __future__ import annotations

from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.caches import CACHE, CacheVariable
from nbcompile.tracing.variables.slices import index_of


@handles(CACHE)
def _cache(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if keywords or len(arguments) != 4:  # the library passes these four
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CALL, "functools._lru_cache_wrapper(...)", name="class _lru_cache_wrapper"
        )
    function, maxsize, typed, info = (realise(tracer, argument) for argument in arguments)
    if not tracer.call(tracer.wrap(callable, None), [function]).truth(tracer):
        tracer.raise_exception(TypeError, "the first argument must be callable")
    is_unbounded = maxsize.is_constant() and maxsize.constant() is None
    limit = None if is_unbounded else index_of(tracer, maxsize, lambda value: CACHE(len, value, False, None))
    cache = CacheVariable(function, None if limit is None else max(int(limit), 0), typed.truth(tracer), info)
    tracer.side_effects.mark_mutated(tracer, cache)
    return cache
