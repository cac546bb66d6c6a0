"""Use counts of shared values: a tuple with a single use is inlined.

    return (x, y)                           once
    pair = (x, y); d["a"] = pair; return d, pair    twice: it is one tuple

In torch: PyCodegen.uses of torch/_dynamo/codegen.py. Read next: nbcompile/rewriting/values.py
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from nbcompile.capture import recipe as recipes, trace

_DATA = (recipes.__name__, trace.__name__)


def single_use_tuples(*roots: object) -> frozenset[int]:
    """Keys of the shared tuples that the recipes in some data use exactly once."""
    uses: Counter[int] = Counter()
    tuples: set[int] = set()
    _count(roots, uses, tuples)
    return frozenset(key for key in tuples if uses[key] == 1)


def _count(data: object, uses: Counter[int], tuples: set[int]) -> None:
    match data:
        case recipes.SharedValue(key, inner, fill):
            # The content of a shared value is counted once: at its other uses it is only a local.
            uses[key] += 1
            if uses[key] > 1:
                return
            # Only tuples: whether two lists are one object shows when one of them changes. A tuple
            # that is filled later needs a local to be filled through.
            if isinstance(inner, recipes.Build) and inner.kind == "tuple" and not fill:
                tuples.add(key)
            _count((inner, fill), uses, tuples)
        case recipes.SharedReference(key):
            uses[key] += 1
        case tuple():
            for part in data:
                _count(part, uses, tuples)
        case recipes.Constant():
            return
        case _ if type(data).__module__ in _DATA and dataclasses.is_dataclass(data):
            for field in dataclasses.fields(data):
                _count(getattr(data, field.name), uses, tuples)
