"""The real value of a tracker all of whose parts are known while tracing.

    ([1, (2, 3)], {"a": 4})     a copy of it: lists, dicts, sets, deques and views of constants
    [x, 1], x a tensor          None: x is known when the graph runs

In torch: as_python_constant of torch/_dynamo/variables/base.py. Read next: nbcompile/tracing/calls/folding.py
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable


def whole(tracer: Tracer, value: VariableTracker) -> tuple[object] | None:
    """The real value of a container of constants (also nested ones), as a tuple of one; None if a part is unknown."""
    value = realise(tracer, value)
    if has_program_methods(value):
        return None
    if value.is_constant():
        return (value.constant(),)
    for kind, copied in _CONTAINERS.items():
        if isinstance(value, kind):
            return copied(tracer, value)
    return None


def _whole_sequence(tracer: Tracer, value: ListVariable | TupleVariable) -> tuple[object] | None:
    if (isinstance(value, ListVariable) and value.cls is not list) or has_methods_in_python(value.cls):
        return None
    parts = [whole(tracer, item) for item in value.unpack(tracer)]
    items = [part[0] for part in parts if part is not None]
    # A named tuple's own ``__new__`` may have other parameters than the items.
    copy = tuple.__new__(value.cls, items) if hasattr(value.cls, "_fields") else value.cls(items)
    return (copy,) if len(items) == len(parts) else None


def has_program_methods(value: VariableTracker) -> bool:
    """True for a tuple that is, or contains, a named tuple with a method of the program."""
    return isinstance(value, TupleVariable) and (
        has_methods_in_python(value.cls) or any(map(has_program_methods, value.items))
    )


@functools.cache
def has_methods_in_python(cls: type) -> bool:
    """True for a named tuple with a special method of the program, which C would call on the copy while tracing."""
    members = [(name, member) for base in cls.__mro__ for name, member in vars(base).items()]
    methods = [(name, member) for name, member in members if isinstance(member, types.FunctionType)]
    return any(
        name.startswith("__") and name != "__new__" and method.__code__.co_filename != _NAMED_TUPLES
        for name, method in methods
    )


_NAMED_TUPLES = collections.Counter.total.__code__.co_filename
"""The file of the methods that every named tuple has."""


def _whole_deque(tracer: Tracer, value: DequeVariable) -> tuple[object] | None:
    listed: Any = whole(tracer, ListVariable(value.items))
    return None if listed is None else (collections.deque(listed[0], value.maxlen),)


def _whole_dict(tracer: Tracer, value: DictVariable) -> tuple[object] | None:
    if value.cls not in (dict, collections.OrderedDict):
        return None
    pairs = [(key, whole(tracer, value.get_item(tracer, key))) for key in value.keys(tracer)]
    known = {key.constant(): part[0] for key, part in pairs if part is not None and key.is_constant()}
    return (value.cls(known),) if len(known) == len(pairs) else None


def _whole_view(tracer: Tracer, value: DictViewVariable) -> tuple[object] | None:
    owner = whole(tracer, value.owner)
    return None if owner is None else (getattr(owner[0], value.which)(),)


def _whole_set(tracer: Tracer, value: SetVariable) -> tuple[object] | None:
    items = value.unpack(tracer)
    if value.cls is not set or not all(item.is_constant() for item in items):
        return None
    return ({item.constant() for item in items},)


_CONTAINERS: Mapping[Any, Callable[[Tracer, Any], tuple[object] | None]] = {
    DequeVariable: _whole_deque,  # before ListVariable, its base class
    ListVariable: _whole_sequence,
    TupleVariable: _whole_sequence,
    DictVariable: _whole_dict,
    DictViewVariable: _whole_view,
    SetVariable: _whole_set,
}
"""Function that creates a real copy, by class of the tracker; the first match is used."""
