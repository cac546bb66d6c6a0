"""Containers of the program: their kind and length are guarded at once, an item when it is used.

    [a, b]            TYPE_MATCH, SEQUENCE_LENGTH
    {"k": v}          TYPE_MATCH; its keys when they are read

In torch: torch/_dynamo/variables/builder.py (wrap_listlike and its like). Read next:
nbcompile/tracing/variables/sequences.py
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, cast

from nbcompile.capture.guard import GuardKind, are_distinct
from nbcompile.capture.resolution import mapping_behind, remaining
from nbcompile.capture.source import (
    AttrSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    MappingSource,
    ModuleSource,
    Source,
    ValueSource,
)
from nbcompile.support.real_class import is_instance
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.iterators import SequenceIteratorVariable
from nbcompile.tracing.variables.lookup import instance_dict
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable, StaticMethodVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.namespaces import NamespaceVariable, is_namespace
from nbcompile.tracing.variables.ranges import RangeIteratorVariable, RangeVariable
from nbcompile.tracing.variables.regular_expressions import RegularExpression, RegularExpressionVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import set_of_value
from nbcompile.tracing.variables.slices import SliceVariable
from nbcompile.tracing.wrapping.kinds import has_own_hash, is_nan, is_plain_object


def _lazy(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    return tracer.wrap(value, None) if source is None else LazyVariable(value, source)


def _held(value: Iterable[object]) -> Iterator[object]:
    """The items in a list, tuple, deque or set, whatever ``__iter__`` its class has."""
    base: Any = next(cls for cls in (list, tuple, set, frozenset, collections.deque) if isinstance(value, cls))
    return cast("Iterator[object]", base.__iter__(value))


def _entries(value: dict[object, object]) -> Iterable[tuple[object, object]]:
    """The entries of a dict, whatever ``items`` its class has."""
    base: Any = collections.OrderedDict if is_instance(value, collections.OrderedDict) else dict
    return cast("Iterable[tuple[object, object]]", base.items(value))


def wrap_sequence(tracer: Tracer, value: list[object] | tuple[object, ...], source: Source | None) -> VariableTracker:
    """A list, a tuple or what is like them."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        # The items are lazy: each is guarded when it is used, and a list of a thousand numbers costs two guards.
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
    fields = getattr(type(value), "_fields", None)
    items = [
        _lazy(
            tracer,
            item,
            None if source is None else AttrSource(source, fields[index]) if fields else ItemSource(source, index),
            # A field of a named tuple by its name, as the program reads it.
        )
        for index, item in enumerate(_held(value))
    ]
    if isinstance(value, list):
        # A list has an identity and may be changed: one tracker. A plain tuple is its items.
        return tracer.side_effects.remember(value, ListVariable(items, source))
    tracker = TupleVariable(items, source, type(value))
    if type(value) is not tuple and type(value).__dictoffset__:  # a subclass of a named tuple: it may have attributes
        tracker.value = value
        tracker.has_attributes = bool(instance_dict(value))
        return tracer.side_effects.remember(value, tracker)
    return tracker


def wrap_items(tracer: Tracer, value: tuple[object, ...], source: Source | None) -> VariableTracker:
    """The tuple inside of an object of a subclass: a plain one without an address, as what ``t[:]`` makes of it."""
    if source is not None:
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, tuple.__len__(value))
    return TupleVariable([_lazy(tracer, item, _item_source(source, index)) for index, item in enumerate(_held(value))])


def _item_source(source: Source | None, index: int) -> Source | None:
    return None if source is None else ItemSource(source, index)


def wrap_iterator(tracer: Tracer, value: Iterator[object], source: Source | None) -> VariableTracker:
    """An iterator over a tuple or a range; how far it is, is guarded."""
    if source is None:
        return UnknownVariable(value, source)
    left = remaining(value)
    if isinstance(left, range):
        tracer.guard(source, GuardKind.RANGE_ITERATOR_MATCH, (left.start, left.stop, left.step))
        return tracer.side_effects.remember(value, RangeIteratorVariable(left, source))
    # Where it is, not which items it has: the items are read when they are used.
    tracer.guard(source, GuardKind.TUPLE_ITERATOR_LEN, len(left))
    items = [LazyVariable(each, IteratorItemSource(source, index)) for index, each in enumerate(left)]
    return tracer.side_effects.remember(value, SequenceIteratorVariable(TupleVariable(items), source))


def wrap_deque(tracer: Tracer, value: collections.deque[object], source: Source | None) -> VariableTracker:
    """A ``collections.deque``."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
        limit = GuardKind.NONE_MATCH if value.maxlen is None else GuardKind.EQUALS_MATCH
        tracer.guard(AttrSource(source, "maxlen"), limit, value.maxlen)  # an append drops an item, or does not
    items = [
        _lazy(tracer, item, None if source is None else ItemSource(source, index))
        for index, item in enumerate(_held(value))
    ]
    return tracer.side_effects.remember(value, DequeVariable(items, source, value.maxlen))


def wrap_dict(tracer: Tracer, value: dict[object, object], source: Source | None) -> VariableTracker:
    """A dict of any kind: keys are guarded, values when they are used."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    if is_namespace(tracer, value):
        if source is not None:
            _guard_namespace(tracer, value, source)
        return tracer.side_effects.remember(value, NamespaceVariable(tracer, cast("dict[str, object]", value), source))
    entries = [
        (
            # A key without a literal has no address ``d[key]`` that a guard could evaluate: by its position.
            tracer.wrap(key, KeySource(source, index) if source is not None and _is_by_position(key) else None),
            _lazy(tracer, item, None if source is None else _value_source(source, key, index)),
        )
        for index, (key, item) in enumerate(_entries(value))
    ]
    default = None
    if is_instance(value, collections.defaultdict) and value.default_factory is not None:
        default = tracer.wrap(value.default_factory, None if source is None else AttrSource(source, "default_factory"))
    return tracer.side_effects.remember(value, DictVariable(tracer, entries, source, type(value), default))


def _guard_namespace(tracer: Tracer, value: dict[object, object], source: Source) -> None:
    """Guard that a dict is the globals that it is now: another dict would not show what is stored in them."""
    name = str(value.get("__name__"))
    if getattr(sys.modules.get(name), "__dict__", None) is value:
        tracer.guard(source, GuardKind.OBJECT_ALIASING, AttrSource(ModuleSource(name), "__dict__"))
    else:
        tracer.guard(source, GuardKind.ID_MATCH, value)


def _is_by_position(key: object) -> bool:
    return is_plain_object(key) or has_own_hash(key) or is_nan(key)


def _value_source(mapping: Source, key: object, index: int) -> Source:
    return ValueSource(mapping, index) if has_own_hash(key) or is_nan(key) else ItemSource(mapping, key)


FEW = 16
"""Members of a set that have a guard each; of more constants there is one guard on the whole set."""


def wrap_set(tracer: Tracer, value: set[object] | frozenset[object], source: Source | None) -> VariableTracker:
    """A set: its members are guarded."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        # As many members, and each of these: the same set. Members are hashed already, so one guard each suffices.
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
        if len(value) > FEW and are_distinct(_held(value)):
            tracer.guard(source, GuardKind.SET_MEMBERS, frozenset(_held(value)))
        else:
            for item in _held(value):
                tracer.guard(source, GuardKind.SET_CONTAINS, (item, True))
    members = [
        tracer.wrap(item, tracer.keep(item, "member") if is_plain_object(item) or is_nan(item) else None)
        for item in _held(value)
    ]
    tracker = set_of_value(tracer, members, value, source)
    # A frozenset never changes, and needs no single tracker.
    return tracer.side_effects.remember(value, tracker) if isinstance(value, set) else tracker


def wrap_mapping_proxy(tracer: Tracer, value: types.MappingProxyType, source: Source | None) -> VariableTracker:
    """A view of a dict that cannot change it, such as a class has."""
    if (
        source is None
    ):  # of a class, say, whose slots a polyfill reads: nothing is guarded of a value without an address
        entries = [(tracer.wrap(key, None), _lazy(tracer, item, None)) for key, item in value.items()]
        return MappingProxyVariable(DictVariable(tracer, entries))
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    real = mapping_behind(value)
    # The proxy of a class shows the class's dict, which may change while the frame is traced.
    if type(real) not in (dict, collections.OrderedDict, collections.defaultdict) or "__module__" in value:
        return UnknownVariable(value, source)
    # The dict itself has an address: another name of it leads to the same tracker, in later calls too.
    mapping = tracer.wrap(real, MappingSource(source))
    return (
        MappingProxyVariable(mapping, source) if isinstance(mapping, DictVariable) else UnknownVariable(value, source)
    )


def wrap_static_method(tracer: Tracer, value: staticmethod[..., object], source: Source | None) -> VariableTracker:
    """A ``staticmethod`` or ``classmethod`` object itself: its class now, its function when it is used."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return StaticMethodVariable(value, source)


def wrap_slice(tracer: Tracer, value: slice, source: Source | None) -> VariableTracker:
    """A slice."""
    parts = [
        tracer.wrap(getattr(value, name), None if source is None else AttrSource(source, name))
        for name in ("start", "stop", "step")
    ]
    return SliceVariable(parts, source)


def wrap_regular_expression(tracer: Tracer, value: RegularExpression, source: Source | None) -> VariableTracker:
    """A compiled pattern, or a match: the very object is expected again."""
    if source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return RegularExpressionVariable(value, source)


def wrap_range(tracer: Tracer, value: range, source: Source | None) -> VariableTracker:
    """A range."""
    if source is not None:
        tracer.guard(source, GuardKind.EQUALS_MATCH, value)
    return RangeVariable(value, source)
