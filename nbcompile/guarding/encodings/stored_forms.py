"""Guards as data of an entry on disk, and back into guards of the process that reads it: a form for each kind.

    TYPE_MATCH L['self']     its class in words; read: the class of the value there now, if the words are the same
    EQUALS_MATCH L['k']      3
    GLOBAL_STATE             torch's state of grad mode, autocast, default dtype, threads, ...

No object is created from data: a guard expects an object of the current call, if its description is the stored one.
The writer and the reader of the entry describe objects (``fast/disk_cache/stored_guards.py``).

In torch: the serialised guards of torch/_dynamo/guards.py (pickled). Read next: nbcompile/guarding/encodings/table.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, cast

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard, ShapeGuards, TensorFacts, TensorMarks
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.capture.source import Source
from nbcompile.guarding.encodings.ambient import inlined_hooks
from nbcompile.record.model import StackLine


class EntryWriter(Protocol):
    """Writer of an entry: what a guard's data consists of."""

    def number_of(self, source: Source) -> int:
        """The number of a source in the entry."""

    def key(self, key: object) -> Any:
        """A key of a dict, which may be a class."""

    def describe(self, value: object) -> Any:
        """An object in words that are the same in every process that has an equal one."""

    def tensor_facts(self, source: Source) -> Any:
        """Class, dtype, device and keys of the tensor at a source."""


class EntryReader(Protocol):
    """Reader of the data of one guard, for a call of the process that reads it."""

    @property
    def data(self) -> Any:
        """The data, as it was written."""

    @property
    def sources(self) -> list[Source]:
        """The sources of the entry, by their numbers."""

    def value(self) -> Any:
        """The value at the guard's source in this process."""

    def key(self, data: Any) -> object:
        """The key of a dict that was written."""

    def describe(self, value: object) -> Any:
        """An object in words; None if it has no such description."""

    def tensor_facts(self) -> Any:
        """Class, dtype, device and keys of the tensor at the guard's source."""

    def expect_same(self, now: Any, was: Any) -> None:
        """Raise Unreadable if a description differs from the stored one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """Pair of functions: what a kind of guard expects, as JSON, and the same in the process that reads it."""

    write: Callable[[Guard, EntryWriter], Any]
    read: Callable[[EntryReader], Any]


def of_value(take: Callable[[Any], object]) -> Form:
    """Form of an object, which another process cannot load.

        The entry stores its description. The guard of the other process expects the value at the same source, if its
    description is equal.
    """

    def read(stored: EntryReader) -> object:
        # The guard holds the object of this process, not a copy: identity is compared with it at later calls.
        expected = take(stored.value())
        stored.expect_same(stored.describe(expected), stored.data)
        return expected

    return Form(lambda guard, written: written.describe(guard.expected), read)


def of_process(describe_state: Callable[[], Any], expected: object = None) -> Form:
    """Form of a state of the process: the guard expects the current state, if its description is the stored one."""

    def read(stored: EntryReader) -> object:
        try:
            now = describe_state()
        # A state that cannot be stored (a transform is active) differs from every stored one.
        except NotStorable as reason:
            raise Unreadable(str(reason)) from None
        stored.expect_same(now, stored.data)
        return expected

    return Form(lambda guard, written: describe_state(), read)


def _write_tensor(guard: Guard, written: EntryWriter) -> list[Any]:
    assert guard.source is not None
    facts = cast("TensorFacts", guard.expected)
    return [encode(facts.sizes), encode(facts.strides), written.tensor_facts(guard.source)]


def _read_tensor(stored: EntryReader) -> TensorFacts:
    # Class, dtype, device and keys are compared now; the sizes are left to the guard.
    sizes, strides, facts = stored.data
    stored.expect_same(stored.tensor_facts(), facts)
    return TensorFacts(decode(sizes), decode(strides))


def _read_keys(stored: EntryReader) -> tuple[object, ...]:
    keys = tuple(stored.value())
    stored.expect_same([stored.describe(key) for key in keys], stored.data)
    return keys


def _write_marks(guard: Guard, written: EntryWriter) -> list[Any]:
    marks = cast("TensorMarks", guard.expected)
    return [[[name, sorted(dims)] for name, dims in marks.present], list(marks.absent)]


def _read_marks(stored: EntryReader) -> TensorMarks:
    present, absent = stored.data
    return TensorMarks(tuple((name, frozenset(dims)) for name, dims in present), tuple(absent))


def _write_shapes(guard: Guard, written: EntryWriter) -> list[Any]:
    shapes = cast("ShapeGuards", guard.expected)
    stacks = [[list(dataclasses.astuple(line)) for line in stack] for stack in shapes.stacks]
    about = [written.number_of(source) for source in shapes.sources]
    return [list(shapes.expressions), about, stacks, list(shapes.notes)]


def _read_shapes(stored: EntryReader) -> ShapeGuards:
    expressions, about, lines, notes = stored.data
    stacks = tuple(tuple(StackLine(*line) for line in stack) for stack in lines)
    return ShapeGuards(tuple(expressions), tuple(stored.sources[at] for at in about), stacks, tuple(notes))


def global_state() -> Any:
    if torch_internals.forward_level() >= 0:
        raise NotStorable("a level of forward-mode AD is active")
    # The tree compares tensors under the keys of the thread: only these distinguish inference_mode from no_grad.
    return [torch_internals.guards.GlobalStateGuard().__getstate__(), list(torch_internals.thread_keys())]


def function_modes() -> Any:
    if torch_internals.function_modes():
        raise NotStorable("a torch function mode is active")
    return []


def transforms() -> Any:
    if torch_internals.in_transform():
        raise NotStorable("a transform of torch.func is active")
    return []


def saved_tensors_hooks() -> Any:
    if inlined_hooks() is not None:
        raise NotStorable("hooks on saved tensors are traced into the graph")
    return None


VALUE = of_value(lambda value: value)
LITERAL = Form(lambda guard, written: encode(guard.expected), lambda stored: decode(stored.data))
"""Form of a literal, which the guard itself compares."""
KEY = Form(
    lambda guard, written: [written.key(cast("Any", guard.expected)[0]), cast("Any", guard.expected)[1]],
    lambda stored: (stored.key(stored.data[0]), decode(stored.data[1])),
)
"""Form of a key, which may be a class, and of whether the container has it."""
KEYS = Form(lambda guard, written: [written.describe(key) for key in cast("Any", guard.expected)], _read_keys)
SUBCLASSES = Form(lambda guard, written: None, lambda stored: ())
"""Form of results of ``issubclass``: they are among the entry's assumptions, whose reader completes the guard."""
SOURCES = Form(
    lambda guard, written: [written.number_of(source) for source in cast("tuple[Source, ...]", guard.expected)],
    lambda stored: tuple(stored.sources[at] for at in stored.data),
)
SOURCE = Form(
    lambda guard, written: written.number_of(cast("Source", guard.expected)),
    lambda stored: stored.sources[stored.data],
)
TENSOR = Form(_write_tensor, _read_tensor)
MARKS = Form(_write_marks, _read_marks)
SHAPES = Form(_write_shapes, _read_shapes)
