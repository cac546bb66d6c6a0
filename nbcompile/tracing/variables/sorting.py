"""Order of a sorted list: Python's own sort, over constants or over comparisons that are traced.

    sorted(xs, key=f)      f is traced for each item; constants are compared here, in Python
    sorted([A(2), A(1)])   each comparison of Python's sort calls ``A.__lt__``, which is traced
    sorted(d.items())      the keys of the dict determine the order: its values are not compared

In torch: torch/_dynamo/variables/builtin.py (``call_sorted``), lists.py (``ListVariable.call_method``)
"""

from __future__ import annotations

import itertools
import operator
import types
from functools import partial
from typing import Any

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.symbolic import SymbolicVariable


def sort_items(
    tracer: Tracer, items: list[VariableTracker], key: VariableTracker | None, reverse: VariableTracker | None
) -> None:
    """Sort in place by constants (the items, or results of ``key``) or objects with a ``__lt__``, as Python does.

    After a comparison that raises the items are partly sorted, as Python leaves them.
    """
    if reverse is not None and (is_reversed := realise(tracer, reverse)).is_constant():
        tracer.evaluate(sorted, ([],), {"reverse": is_reversed.constant()})  # raises if ``reverse`` is no number
    if key is not None and (found := realise(tracer, key)).is_constant() and found.constant() is None:
        key = None
    keys = [realise(tracer, item if key is None else tracer.call(key, [item])) for item in items]
    plain, traced = _sort_keys(tracer, keys)
    backwards = reverse is not None and reverse.truth(tracer)
    # Positions are sorted instead of items, which keeps the trackers, and is stable like Python's sort.
    before, order = list(items), list(range(len(items)))
    sort = partial(order.sort, key=plain.__getitem__, reverse=backwards)
    try:
        if traced:
            sort()  # a traced comparison raises the program's own errors
        else:
            tracer.evaluate(sort, ())
    finally:
        items[:] = [before[index] for index in order]


def _sort_keys(tracer: Tracer, keys: list[VariableTracker]) -> tuple[list[Any], bool]:
    """Keys that Python can sort by, and whether their comparisons are traced."""
    plain = [_sort_key(tracer, each) for each in keys]
    unknown = [key for key in plain if isinstance(key, VariableTracker)]
    # ``sorted(kwargs.items())``: the names are distinct, so the values are never compared.
    if unknown and (prefixes := _distinct_prefixes(tracer, keys)) is not None:
        return prefixes, False
    if unknown and not all(map(_compares_in_python, keys)):
        names = ", ".join(key.type_name() for key in unknown)
        raise breaks.unsupported(breaks.SORT_KEYS, "sort of values that are no constants", types=names)
    return ([_ComparedKey(tracer, each) for each in keys], True) if unknown else (plain, False)


def _distinct_prefixes(tracer: Tracer, keys: list[VariableTracker]) -> list[Any] | None:
    """The leading constant items of tuples, if they determine the result of each comparison; else None."""
    found: list[Any] = []
    for key in keys:
        if not isinstance(key, ContainerVariable) or key.python_type() is not tuple:
            return None
        parts = [_sort_key(tracer, item) for item in key.unpack(tracer)]
        found.append(tuple(itertools.takewhile(lambda part: not isinstance(part, VariableTracker), parts)))
    size = min(map(len, found))
    prefixes = [prefix[:size] for prefix in found]
    try:
        return prefixes if size and len(set(prefixes)) == len(prefixes) else None
    except TypeError:  # a constant without a hash
        return None


class _ComparedKey:
    """A key whose class has a ``__lt__`` in Python: each comparison of Python's sort is traced."""

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Tracer, value: VariableTracker) -> None:
        self.tracer = tracer
        self.value = value

    def __lt__(self, other: _ComparedKey) -> bool:
        less = self.tracer.wrap(operator.lt, None)
        return self.tracer.call(less, [self.value, other.value]).truth(self.tracer)


def _compares_in_python(key: VariableTracker) -> bool:
    return isinstance(class_lookup(key.python_type(), "__lt__"), types.FunctionType)


def _sort_key(tracer: Tracer, key: VariableTracker) -> Any:
    """Constant by which a list is sorted; the tracker if there is none."""
    key = realise(tracer, key)
    if isinstance(key, SymbolicVariable):  # the order of two sizes is guarded, and not the sizes
        return key.specialise() if key.is_unbacked() else key.example
    if isinstance(key, ContainerVariable) and key.python_type() is tuple:
        parts = [_sort_key(tracer, item) for item in key.unpack(tracer)]
        return key if any(isinstance(part, VariableTracker) for part in parts) else tuple(parts)
    return key.constant() if key.is_constant() else key
