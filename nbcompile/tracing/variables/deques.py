"""A ``collections.deque``: a double-ended list, with an optional maximum length.

In torch: DequeVariable of torch/_dynamo/variables/lists.py. Read next: sequences.py
"""

from __future__ import annotations

import collections
import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.iterators import WatchingIteratorVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.slices import index_of


class DequeVariable(ListVariable):
    """A ``collections.deque``."""

    cls: type = collections.deque
    moves = 0
    """Number of changes after which iterators over the deque raise an error; replacing an item is no such change."""

    def __init__(
        self, items: Sequence[VariableTracker], source: Source | None = None, maxlen: int | None = None
    ) -> None:
        super().__init__(items if maxlen is None else items[max(0, len(items) - maxlen) :], source)
        self.maxlen = maxlen

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return ConstantVariable(self.maxlen) if name == "maxlen" else super().get_attribute(tracer, name)

    def proxy(self) -> object:
        # No operator takes a deque: without a node, the call runs as written and raises eager mode's error.
        return VariableTracker.proxy(self)

    def like(self, items: Sequence[VariableTracker]) -> SequenceVariable:
        return DequeVariable(items, maxlen=self.maxlen)

    def method___init__(
        self, tracer: Tracer, iterable: VariableTracker | None = None, maxlen: VariableTracker | None = None
    ) -> None:
        limit = None if maxlen is None else limit_of(tracer, maxlen)
        self.method_clear(tracer)
        self.maxlen = limit
        if iterable is not None:
            self.method_extend(tracer, iterable)

    def repeat(self, tracer: Tracer, count: int) -> None:
        super().repeat(tracer, count)
        if self.maxlen is not None:
            del self.items[: max(0, len(self.items) - self.maxlen)]

    def method_append(self, tracer: Tracer, item: VariableTracker) -> None:
        super().method_append(tracer, item)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0]

    def method_extend(self, tracer: Tracer, items: VariableTracker) -> None:
        for item in items.unpack(tracer):
            self.method_append(tracer, item)

    def method_appendleft(self, tracer: Tracer, item: VariableTracker) -> None:
        self.mark_mutated(tracer)
        self.items.insert(0, item)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[-1]

    def method_insert(self, tracer: Tracer, index: VariableTracker, item: VariableTracker) -> None:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            tracer.raise_exception(IndexError, "deque already at its maximum size")
        super().method_insert(tracer, index, item)

    def not_in(self, tracer: Tracer, item: VariableTracker, message: str | None = None) -> NoReturn:
        super().not_in(tracer, item)  # raises the general ValueError: a deque's method has no message of its own

    def matches(self, tracer: Tracer, item: VariableTracker, start: int = 0, stop: int = sys.maxsize) -> Iterator[int]:
        moves = self.moves
        for index in range(start, min(stop, len(self.items))):
            if tracer.equal_items(self.at(tracer, index), item):
                yield index
            if self.moves != moves:
                tracer.raise_exception(RuntimeError, "deque mutated during iteration")

    def method_remove(self, tracer: Tracer, item: VariableTracker) -> None:
        moves = self.moves
        for index, element in enumerate(self.unpack(tracer)):
            is_equal = tracer.equal_items(element, item)
            if self.moves != moves:  # checked before the result is used
                tracer.raise_exception(IndexError, "deque mutated during iteration")
            if is_equal:
                self.mark_mutated(tracer)
                del self.items[index]
                return
        self.not_in(tracer, item)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        iterator = self._over(self, iter)
        iterator.raises_at_end = True
        return iterator

    def backwards(self, tracer: Tracer) -> VariableTracker:
        """``reversed(d)``."""
        iterator = self._over(TupleVariable(self.items[::-1]), reversed)
        iterator.read, iterator.exhausts_early = (lambda tracer, index: self.items[-1 - index]), True
        return iterator

    def _over(self, items: SequenceVariable, step: Callable[[Any], object]) -> WatchingIteratorVariable:
        cls = type(step(collections.deque()))
        # A count of changes, not the length, which is the same after an item was added and another one removed.
        return WatchingIteratorVariable(self, items, cls, lambda: self.moves, "deque mutated during iteration")

    def mark_mutated(self, tracer: Tracer) -> None:
        super().mark_mutated(tracer)
        self.moves += 1

    def _index(self, tracer: Tracer, key: VariableTracker) -> Any:
        index = super()._index(tracer, key)
        if isinstance(index, slice):
            tracer.evaluate(operator.getitem, (collections.deque(), index))  # it has no slices
        return index

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        moves = self.moves
        super().set_item(tracer, key, value)
        self.moves = moves

    def method_reverse(self, tracer: Tracer) -> None:
        moves = self.moves
        super().method_reverse(tracer)
        self.moves = moves

    def method_pop(self, tracer: Tracer, index: VariableTracker | None = None) -> VariableTracker:
        if index is not None:
            tracer.evaluate(collections.deque[object]().pop, (index,))  # raises: ``pop`` takes no argument
        return super().method_pop(tracer)

    def method_popleft(self, tracer: Tracer) -> VariableTracker:
        return super().method_pop(tracer, ConstantVariable(0))

    def method_extendleft(self, tracer: Tracer, items: VariableTracker) -> None:
        for item in items.unpack(tracer):
            self.method_appendleft(tracer, item)

    def method_rotate(self, tracer: Tracer, count: VariableTracker | None = None) -> None:
        rotated = collections.deque(self.items)
        rotated.rotate(1 if count is None else index_of(tracer, count, collections.deque[object]().rotate))
        if len(self.items) > 1:
            self.mark_mutated(tracer)
        self.items[:] = rotated

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        limit = () if self.maxlen is None else (Constant(self.maxlen),)
        return Call(Constant(self.cls, self.cls.__name__), (super()._build(reconstruction), *limit))


def limit_of(tracer: Tracer, maxlen: VariableTracker) -> int | None:
    """The maximum length of a new deque; raises Python's error for an invalid one."""
    none = maxlen.is_constant() and maxlen.constant() is None
    limit = None if none else index_of(tracer, maxlen, functools.partial(collections.deque, ()))
    empty: Any = tracer.evaluate(collections.deque, ((), limit))
    return empty.maxlen


def empty_deque(cls: Any, maxlen: int | None) -> Any:
    """A new deque of a subclass, without running code of the class."""
    empty = collections.deque.__new__(cls)
    collections.deque.__init__(empty, (), maxlen)
    return empty
