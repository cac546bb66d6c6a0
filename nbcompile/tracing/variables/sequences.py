"""Lists, tuples and similar sequences: each item has a tracker.

    xs.append(y)      the ListVariable has one more item; nothing runs
    a, b = pair       the items of the TupleVariable

Tracing changes only the tracker of a list from outside; side_effects records the
change and the residual program replays it.

In torch: torch/_dynamo/variables/lists.py. Read next: mappings.py
"""

from __future__ import annotations

import operator
import sys
import types
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import AppendItems, Build, Call, Constant, Mutation, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker, is_deferred, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.iterators import SequenceIteratorVariable
from nbcompile.tracing.variables.lookup import BINDS, MISSING, class_lookup, instance_dict, is_data_descriptor
from nbcompile.tracing.variables.slices import index_of
from nbcompile.tracing.variables.sorting import sort_items

MOST_ITEMS = 1 << 20
"""Maximum number of items of a repeated sequence that is traced: a longer one breaks the graph."""
_POINTER = 8
"""Size of an item in a list, in bytes."""
_BOUND = (*BINDS, property, classmethod, staticmethod)
"""Descriptors that ``Tracer.bind`` binds to an object."""


class SequenceVariable(ContainerVariable):
    """A list, tuple, deque, torch.Size or named tuple, by its items."""

    cls: type = list

    def __init__(self, items: Sequence[VariableTracker], source: Source | None = None, cls: type | None = None) -> None:
        self.items = list(items)
        self.source = source
        if cls is not None:
            self.cls = cls

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self.items)})"

    def is_constant(self) -> bool:
        return not self.mutable and all(item.is_constant() for item in self.items)

    def constant(self) -> object:
        values = [item.constant() for item in self.items]
        if hasattr(self.cls, "n_sequence_fields"):  # the class of sys.version_info creates no other object
            return tuple(values)
        if hasattr(self.cls, "_fields"):  # a subclass's own __new__ may have other parameters
            return tuple.__new__(self.cls, values)
        return self.cls(values)

    def proxy(self) -> object:
        values = [item.proxy() for item in self.items]
        if hasattr(self.cls, "_fields"):
            return self.cls(*values)
        return tuple(values) if issubclass(self.cls, tuple) else values

    def at(self, tracer: Tracer, index: int) -> VariableTracker:
        """The realised item at a position."""
        self.items[index] = realise(tracer, self.items[index])
        return self.items[index]

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return [self.at(tracer, index) for index in range(len(self.items))]

    def unpack_keeping_deferred(self, tracer: Tracer) -> list[VariableTracker]:
        return [realise_unless_deferred(tracer, item) for item in self.items]

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.items))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.items)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return SequenceIteratorVariable(self)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        index = self._index(tracer, key)
        if isinstance(index, slice):
            chosen: Any = tracer.evaluate(self.items.__getitem__, (index,))  # raises for a step of 0
            # ``t[:] is t`` for a tuple, as in CPython; a slice of a list is always a new list.
            return self if self.cls is tuple and chosen == self.items else self.like(chosen)
        if not -len(self.items) <= index < len(self.items):
            tracer.evaluate(self.empty().__getitem__, (index,))  # raises: the sequence is empty
        return self.items[index] if is_deferred(self.items[index]) else self.at(tracer, index)

    def _index(self, tracer: Tracer, key: VariableTracker) -> Any:
        """A subscript as a number or slice."""
        return index_of(tracer, key, partial(operator.getitem, self.empty()))

    def name_of_base(self) -> str:
        """The built-in class whose methods raise errors: ``tuple`` for a named tuple and a size."""
        return next(cls.__name__ for cls in (tuple, list, deque) if issubclass(self.cls, cls))

    def empty(self) -> Any:
        """An empty sequence of the built-in class, which raises Python's own errors."""
        return () if issubclass(self.cls, tuple) else self.cls()

    def like(self, items: Sequence[VariableTracker]) -> SequenceVariable:
        """A new sequence of the same kind; a slice of a named tuple is a tuple."""
        if issubclass(self.cls, tuple):
            return TupleVariable(items, cls=self.cls if self.cls is torch.Size else tuple)
        return ListVariable(items)

    def repeated(self, tracer: Tracer, count: int) -> list[VariableTracker]:
        """The items of ``xs * count``, if they may fit in memory."""
        tracer.evaluate(operator.mul, ([], count))  # larger than a word
        size = len(self.items) * count
        if size * _POINTER > sys.maxsize:  # CPython raises before it allocates
            tracer.raise_exception(MemoryError)
        if size > MOST_ITEMS:
            raise breaks.unsupported(
                breaks.UNSUPPORTED_OPERATOR, f"{size} items", symbol="*", types=f"{self.type_name()} and int"
            )
        return self.items * count

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return any(True for _ in self.matches(tracer, item))

    def matches(self, tracer: Tracer, item: VariableTracker, start: int = 0, stop: int = sys.maxsize) -> Iterator[int]:
        """Positions of equal items. An ``__eq__`` of the program may change the sequence meanwhile."""
        index = start
        while index < min(stop, len(self.items)):
            if tracer.equal_items(self.at(tracer, index), item):
                yield index
            index += 1

    def method_index(self, tracer: Tracer, item: VariableTracker, *bounds: VariableTracker) -> VariableTracker:
        find = self.empty().index  # raises Python's error for invalid bounds
        if len(bounds) > 2:
            tracer.evaluate(find, (None, *bounds))
        start, stop = (*(index_of(tracer, each, partial(find, None)) for each in bounds), None, None)[:2]
        low, high, _ = slice(start, stop).indices(len(self.items))
        for index in self.matches(tracer, item, low, high):
            return ConstantVariable(index)
        self.not_in(tracer, item, "tuple.index(x): x not in tuple" if issubclass(self.cls, tuple) else None)

    def not_in(self, tracer: Tracer, item: VariableTracker, message: str | None = None) -> NoReturn:
        """Raise the ValueError for a missing value."""
        if message is None:
            text = tracer.call(tracer.wrap(repr, None), [item])
            message = f"{text.constant() if text.is_constant() else text.describe()} is not in {self.cls.__name__}"
        tracer.raise_exception(ValueError, message)

    def method_count(self, tracer: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(sum(1 for _ in self.matches(tracer, item)))


class ListVariable(SequenceVariable):
    """A list, new or from outside."""

    cls: type = list

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.mark_mutated(tracer)
        index = self._index(tracer, key)
        if isinstance(index, slice):
            if value.is_constant() and not hasattr(value.python_type(), "__iter__"):
                tracer.evaluate([].__setitem__, (index, value.constant()))  # raises: not an iterable
            given = value.unpack(tracer)
            tracer.evaluate(
                ([None] * len(self.items)).__setitem__, (index, given)
            )  # raises for a length that does not fit
            self.items[index] = given
            return
        if not -len(self.items) <= index < len(self.items):
            tracer.raise_exception(IndexError, self._no_such_item())
        self.items[index] = value

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        self.mark_mutated(tracer)
        index = self._index(tracer, key)
        if isinstance(index, slice):
            tracer.evaluate(self.items.__delitem__, (index,))  # raises for a step of 0
            return
        try:
            del self.items[index]
        except IndexError:
            tracer.raise_exception(IndexError, self._no_such_item())

    def _no_such_item(self) -> str:
        return f"{self.name_of_base()} {'index' if issubclass(self.cls, deque) else 'assignment index'} out of range"

    def method_append(self, tracer: Tracer, item: VariableTracker) -> None:
        self.mark_mutated(tracer)
        self.items.append(item)

    def method_extend(self, tracer: Tracer, items: VariableTracker) -> None:
        self.mark_mutated(tracer)
        self.items.extend(items.listed(tracer))

    def repeat(self, tracer: Tracer, count: int) -> None:
        """``xs *= count``, which changes the list itself."""
        items = self.repeated(tracer, count)
        self.mark_mutated(tracer)
        self.items[:] = items

    def method_insert(self, tracer: Tracer, index: VariableTracker, item: VariableTracker) -> None:
        self.mark_mutated(tracer)
        position = index_of(tracer, index, lambda where: self.empty().insert(where, None))
        assert isinstance(position, int)
        self.items.insert(position, item)

    def method_pop(self, tracer: Tracer, index: VariableTracker | None = None) -> VariableTracker:
        position = -1 if index is None else index_of(tracer, index, [].pop)
        assert isinstance(position, int)
        if not self.items:
            tracer.raise_exception(
                IndexError, f"pop from empty {self.cls.__name__}" if self.cls is list else "pop from an empty deque"
            )
        if not -len(self.items) <= position < len(self.items):
            tracer.raise_exception(IndexError, "pop index out of range")
        self.mark_mutated(tracer)
        return realise_unless_deferred(tracer, self.items.pop(position))

    def method_remove(self, tracer: Tracer, item: VariableTracker) -> None:
        for index in self.matches(tracer, item):
            self.mark_mutated(tracer)
            del self.items[index : index + 1]  # an ``__eq__`` may have removed it
            return
        self.not_in(tracer, item, "list.remove(x): x not in list")

    def method___init__(self, tracer: Tracer, items: VariableTracker | None = None) -> None:
        if self.items:
            self.method_clear(tracer)
        if items is not None:
            self.method_extend(tracer, items)

    def method_clear(self, tracer: Tracer) -> None:
        self.mark_mutated(tracer)
        self.items.clear()

    def method_reverse(self, tracer: Tracer) -> None:
        self.mark_mutated(tracer)
        self.items.reverse()

    def method_copy(self, tracer: Tracer) -> VariableTracker:
        return self.like(self.items)

    def method_sort(
        self, tracer: Tracer, *, key: VariableTracker | None = None, reverse: VariableTracker | None = None
    ) -> None:
        ordered = list(self.unpack(tracer))
        self.mark_mutated(tracer)
        # As in CPython: while its keys are computed and compared the list is empty, and changes of it are discarded.
        self.items.clear()
        version = self.version
        try:
            sort_items(tracer, ordered, key, reverse)
        finally:
            is_filled = bool(self.items)
            self.items[:] = ordered
        if is_filled:
            tracer.raise_exception(ValueError, "list modified during sort")
        if self.version != version:
            # CPython detects an append and a pop, but no clear: it raises only if an item was ever added.
            raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, "list.sort", name="list while it is sorted")

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        empty = (lambda: Build("list", ()), lambda: self._items_filled(reconstruction)) if self.cls is list else None
        return reconstruction.shared(self, lambda: self._build(reconstruction), empty=empty)

    def _items_filled(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        return (AppendItems(self.recipe(reconstruction), tuple(map(reconstruction.recipe, self.items))),)

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        return Build("list", tuple(reconstruction.recipe(item) for item in self.items))


class TupleVariable(SequenceVariable):
    """A tuple, torch.Size, named tuple or result tuple of an operator."""

    cls: type = tuple
    mutable = False
    value: object = None
    """A real named tuple whose class gives it a ``__dict__``."""

    def is_constant(self) -> bool:
        return super().is_constant() and not self.has_attributes

    has_attributes = False
    """True if it has stored attributes, as a subclass of a named tuple allows: it then has an identity."""

    def hash_key(self, tracer: Tracer) -> Hashable:
        # A constant tuple hashes as itself, so that a dict finds it by its value.
        items = tuple(item.hash_key(tracer) for item in self.unpack(tracer))
        return self.constant() if self.is_constant() else items

    def fields(self) -> tuple[str, ...]:
        """The names of a named tuple's items."""
        named = getattr(self.cls, "_fields", None)
        return named if named is not None else getattr(self.cls, "__match_args__", ())

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if self.cls in (tuple, torch.Size):
            return super().get_attribute(tracer, name)
        # The order of ``object.__getattribute__``: a named tuple's fields are descriptors of its class,
        # before its own dict.
        found = class_lookup(self.cls, name)
        if name in self.fields() and not isinstance(found, (property, types.FunctionType)):
            return self.at(tracer, self.fields().index(name))
        if self.cls.__dictoffset__ and not is_data_descriptor(found):
            own = self._own_attribute(tracer, name)
            if own is not None:
                return own
            self._guard_absence(tracer, name, in_class=found is not MISSING)
        # Another descriptor (``__class__``, a method in C, one of the program's) is not what its class has stored.
        bound = not hasattr(type(found), "__get__") or isinstance(found, _BOUND)
        if found not in (MISSING, None) and not hasattr(self, f"method_{name}") and bound:
            return tracer.bind(self, self.cls, name)
        return super().get_attribute(tracer, name)

    def _own_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None or tracer.side_effects.is_deleted(self, name) or self.value is None:
            return stored
        members = instance_dict(self.value)
        if name not in members:
            return None
        return tracer.wrap(members[name], None if self.source is None else AttrSource(self.source, name))

    def _guard_absence(self, tracer: Tracer, name: str, *, in_class: bool) -> None:
        if self.source is not None and not tracer.side_effects.is_deleted(self, name):
            absent = (GuardKind.NOT_IN_GENERIC_DICT, name) if in_class else (GuardKind.HASATTR, (name, False))
            tracer.guard(self.source, *absent)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        found = class_lookup(self.cls, name)
        if not self.cls.__dictoffset__ or is_data_descriptor(found) or self._sets_its_own_way("__setattr__"):
            super().set_attribute(tracer, name, value)
        self.has_attributes = True
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if not self.cls.__dictoffset__ or self._sets_its_own_way("__delattr__"):
            super().delete_attribute(tracer, name)
        if self._own_attribute(tracer, name) is None:
            tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        tracer.side_effects.delete_attribute(tracer, self, name)

    def _sets_its_own_way(self, method: str) -> bool:
        return class_lookup(self.cls, method) is not object.__dict__[method]

    def method_numel(self, tracer: Tracer) -> VariableTracker:
        result: VariableTracker = ConstantVariable(1)
        for item in self.unpack(tracer):
            result = tracer.binary("*", result, item)
        return result

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        fill = (lambda: reconstruction.attributes(self)) if self.has_attributes else None
        return reconstruction.shared(self, lambda: self._build(reconstruction), fill=fill)

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        recipe = Build("tuple", tuple(reconstruction.recipe(item) for item in self.items))
        if self.cls is tuple:
            return recipe
        # ``_make`` is in the class that ``namedtuple`` itself created: its constructor takes the items one by one.
        if "_make" in self.cls.__dict__:
            return Call(Constant(self.cls, self.cls.__name__), recipe.items)
        if hasattr(self.cls, "_fields"):  # a subclass, whose __new__ may have other parameters
            return Call(Constant(tuple.__new__, "new"), (Constant(self.cls, self.cls.__name__), recipe))
        return Call(Constant(self.cls, self.cls.__name__), (recipe,))
