"""Iterators, which are advanced step by step.

    it = iter(xs); next(it)      an item of xs; the iterator advances by one
    xs.append(y); list(it)       it follows its list, as CPython's does

The residual program advances an iterator from outside by as many steps as the trace did.

In torch: torch/_dynamo/variables/iter.py and ListIteratorVariable of lists.py.
Read next: sequences.py
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any

from nbcompile.capture.recipe import Call, Constant, Evaluate, Mutation, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.containers import BuiltinMethodVariable, ContainerVariable

if TYPE_CHECKING:
    from nbcompile.tracing.variables.sequences import SequenceVariable


class IteratorVariable(VariableTracker):
    """Base of iterators: they are their own iterator, and ``__next__`` is a method."""

    def python_type(self) -> type:
        return type(iter([]))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return self

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__next__", "__iter__"):
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__iter__":
            return self
        if name == "__next__":
            item = self.next_item(tracer)
            if item is None:
                tracer.stop(self)
            return item
        return super().call_method(tracer, name, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        cls = self.python_type() if reconstruction.shows_class(self) else tuple
        return reconstruction.shared(self, lambda: reconstruction.iterator(self.rest(reconstruction.tracer), cls))

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        """The remaining items."""
        return self.unpack(tracer)


class SequenceIteratorVariable(IteratorVariable):
    """An iterator over a sequence that follows its changes, as CPython's does."""

    def __init__(self, sequence: SequenceVariable, source: Source | None = None) -> None:
        self.sequence = sequence
        self.index = 0
        self.source = source
        self.is_exhausted = False
        """True once ``next`` found no item: it stays so, even if the list grows."""

    def python_type(self) -> type:
        return type(iter(())) if issubclass(self.sequence.cls, tuple) else type(iter([]))

    def describe(self) -> str:
        return f"ListIteratorVariable(length={len(self.sequence.items)}, index={self.index})"

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        # An exhausted list iterator of CPython drops its list: items that are appended later are ignored.
        if self.is_exhausted:
            return None
        if self.source is not None:
            # The iterator is from outside: the residual program calls ``next`` on it as often as the trace did.
            tracer.side_effects.mark_mutated(tracer, self)  # the real one advances, too
        if self.index >= len(self.sequence.items):
            self.is_exhausted = True
            return None
        self.index += 1
        return self.sequence.items[self.index - 1]  # realised when it is used

    def taken(self) -> int:
        """Number of calls of ``next``."""
        return self.index + self.is_exhausted

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        return [] if self.is_exhausted else self.sequence.items[self.index :]

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # Only a list that can still change needs an iterator over itself; else the remaining items are enough.
        follows = self.sequence.cls is list and reconstruction.shows(self.sequence)
        if self.source is not None or not follows or self.is_exhausted:
            return super().recipe(reconstruction)
        # A later change of the list changes the remaining items.
        return reconstruction.shared(self, lambda: self._at_the_start(reconstruction))

    def _at_the_start(self, reconstruction: Reconstructor) -> Recipe:
        # ``__setstate__`` sets the position, but at most to the length that the list has then: it is called last, when
        # the list has its final length.
        reconstruction.at_last.append(lambda: self._advance(reconstruction))
        return Call(self.remake(), (reconstruction.recipe(self.sequence),))

    def remake(self) -> Constant:
        """Function that creates such an iterator from its list."""
        return Constant(iter, "iter")

    def _advance(self, reconstruction: Reconstructor) -> Mutation:
        move = reconstruction.attribute(reconstruction.recipe(self), "__setstate__")
        return Evaluate(Call(move, (Constant(self.index, "index"),)))


class TextIteratorVariable(SequenceIteratorVariable):
    """An iterator over a text or bytes, forwards or, with ``builtin=reversed``, backwards."""

    def __init__(self, items: SequenceVariable, value: str | bytes, builtin: Callable[..., Any] = iter) -> None:
        super().__init__(items)
        self.value = value
        self.builtin = builtin

    def python_type(self) -> type:
        return type(self.builtin(self.value))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if not reconstruction.shows_class(self):
            return super().recipe(reconstruction)
        constructor = Call(Constant(self.builtin, self.builtin.__name__), (Constant(self.value, "text"),))
        return reconstruction.shared(self, lambda: moved(constructor, self.taken()))


def moved(constructor: Recipe, steps: int) -> Recipe:
    """A new iterator at the position of the traced one."""
    return Call(Constant(moved_by, "moved_by"), (constructor, Constant(steps, "steps"))) if steps else constructor


def moved_by(iterator: Iterator[object], steps: int) -> Iterator[object]:
    """The iterator, after some steps."""
    for _ in range(steps):
        next(iterator, None)
    return iterator


class ReversedIteratorVariable(SequenceIteratorVariable):
    """``reversed(xs)``: from the last item at its creation to the first, of the current list."""

    def __init__(self, sequence: SequenceVariable) -> None:
        super().__init__(sequence)
        self.index = len(sequence.items) - 1

    def python_type(self) -> type:
        return reversed if issubclass(self.sequence.cls, tuple) else type(reversed([]))

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        if not 0 <= self.index < len(self.sequence.items):
            self.index = -1
            return None
        self.index -= 1
        return self.sequence.items[self.index + 1]

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        return self.sequence.items[: self.index + 1][::-1]

    def remake(self) -> Constant:
        return Constant(reversed, "reversed")


class WatchingIteratorVariable(SequenceIteratorVariable):
    """An iterator over a dict, set or deque, which raises an error after a change of the container's size.

    All later steps raise, too, with the exceptions of :attr:`exhausts_early` and :attr:`raises_at_end`.
    """

    def __init__(
        self, owner: ContainerVariable, items: SequenceVariable, cls: type, state: Callable[[], object], message: str
    ) -> None:
        super().__init__(items)
        self.owner = owner
        self.cls = cls
        self.state = state
        """Function whose value changes with the owner."""
        self.state_before = state()
        self.message = message
        self.version = owner.version
        self.contents: Callable[[], Container[object]] | None = None
        """Function that returns the keys, if they may change without a change of the state."""
        self.contents_before: object = None
        self.read: Callable[[Tracer, int], VariableTracker] | None = None
        """Function that reads the current item of the owner."""
        self.exhausts_early = False
        """True if it is exhausted after the last item, and after an error."""
        self.raises_at_end = False
        """True if it raises even at its end."""

    def watching(self, contents: Callable[[], Container[object]]) -> WatchingIteratorVariable:
        """Let the iterator compare the keys, too, and return it.

        CPython continues over replaced keys, in an order that depends on the layout of the hash table: a graph break.
        """
        self.contents, self.contents_before = contents, contents()
        return self

    def python_type(self) -> type:
        return self.cls

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        # The behaviour of CPython's iterators, class by class, after a change of their container:
        #     dict, set      RuntimeError at each further step, until it was exhausted
        #     OrderedDict    RuntimeError once, then StopIteration; none after the last item
        #     deque          RuntimeError at each further step, also at its end
        self.is_exhausted |= self.exhausts_early and self.index >= len(self.sequence.items)
        if self.is_exhausted and not self.raises_at_end:
            return None
        # A dict checks its size at each step, and raises "dictionary changed size during iteration".
        if self.state() != self.state_before:
            self.is_exhausted |= self.exhausts_early
            # NaN is unequal to every state: from now on each step raises.
            self.state_before = _NOTHING_EQUALS
            tracer.raise_exception(RuntimeError, self.message)
        if self.contents is not None and self.version != self.owner.version:
            self.version = self.owner.version
            # As many keys, but others: CPython continues, and its items depend on the layout of the table.
            if self.contents() != self.contents_before:
                raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, self.describe(), name=self.type_name())
        item = super().next_item(tracer)
        return item if item is None or self.read is None else self.read(tracer, self.index - 1)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # An iterator over the current items would miss later changes.
        raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, self.describe(), name=self.type_name())


_NOTHING_EQUALS = float("nan")
