"""Filters of warnings: ``warnings.catch_warnings`` and ``simplefilter`` are inlined Python functions.

    with warnings.catch_warnings(record=True) as caught:   no node; `caught` is a new list
        y = x.sin()

They change globals of the module ``warnings``, which are written back like others. The interpreter detects changes by a
counter: the function in C that advances it is called after the graph. A warning itself breaks the graph, so that none
is shown under other filters than the program's.

In torch: CatchWarningsCtxManagerVariable of torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import warnings

from nbcompile.tracing.calls.annotations import DeferredCall
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable

ADVANCE = warnings._filters_mutated  # type: ignore[attr-defined]


@handles(ADVANCE)
def _filters_changed(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Advance the counter of changes once, after the graph."""
    noted = tracer.side_effects.deferred
    if not any(isinstance(each, DeferredCall) and each.function is ADVANCE for each in noted):
        noted.append(DeferredCall(ADVANCE, (), {}))
    return ConstantVariable(None)
