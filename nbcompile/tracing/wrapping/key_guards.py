"""Guards on the keys of a dict and on the order of a set.

    for key in d: ...     DICT_KEYS L['d'] ('a', 'b')     the keys, in this order
    for item in s: ...    SET_ORDER L['s'] (0, 8)         {8, 0} is equal, and has another order

In torch: torch/_dynamo/guards.py (DICT_KEYS_MATCH, SET_CONTAINS). Read next: nbcompile/capture/guard.py
"""

from __future__ import annotations

from nbcompile.capture.guard import Guard, GuardKind, are_distinct
from nbcompile.capture.resolution import keys_of
from nbcompile.capture.source import AttrSource, KeySource, NoArgsCallSource, Source
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import is_constant_value
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.wrapping.data import constant_guard_kind
from nbcompile.tracing.wrapping.kinds import has_own_hash


def guard_keys(tracer: Tracer, mapping: VariableTracker) -> None:
    """Add a guard that a dict from outside has exactly these keys, in this order."""
    assert isinstance(mapping, DictVariable) and mapping.source is not None
    keys = tuple(keys_of(tracer.real_value(mapping.source)))
    # One guard on all keys would look them up in the dict, and so run the ``__hash__`` of the user's class.
    if not any(map(has_own_hash, keys)):
        tracer.guard(mapping.source, GuardKind.DICT_KEYS, keys)
        return
    tracer.guard(mapping.source, GuardKind.DICT_LENGTH, len(keys))
    for index, key in enumerate(keys):  # one guard for each key, or for what is read of it
        if not has_own_hash(key):
            kind = GuardKind.EQUALS_MATCH if is_constant_value(key) else GuardKind.ID_MATCH
            tracer.guard(KeySource(mapping.source, index), kind, key)


def guard_order(tracer: Tracer, source: Source, derived: bool) -> None:
    """Add a guard on the order of the set at the source; ``derived``: another set's order is derived from it."""
    if derived:  # a larger table gives new items other slots
        size = NoArgsCallSource(AttrSource(source, "__sizeof__"))
        tracer.guard(size, GuardKind.EQUALS_MATCH, tracer.real_value(size))
    # Equal sets may have different orders: {0, 8} and {8, 0}.
    items = keys_of(tracer.real_value(source))
    if are_distinct(items):  # one guard on the order, which also checks the items
        tracer.output.guards.pop(Guard(source, GuardKind.SET_MEMBERS, frozenset(items)).key(), None)
        tracer.guard(source, GuardKind.SET_ORDER, tuple(items))
        return
    for index, item in enumerate(items):
        kind = constant_guard_kind(item) if is_constant_value(item) else GuardKind.ID_MATCH
        tracer.guard(KeySource(source, index), kind, item)
