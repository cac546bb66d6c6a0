"""Guards as data, and back into guards of the process that reads them.

    TYPE_MATCH L['self']     its class in words; read: the class of the value there now, if the words are the same
    EQUALS_MATCH L['k']      3
    GLOBAL_STATE             what torch tells of grad mode, autocast, default dtype, threads, ...

No object is made from data: what a guard expects is taken from the call at hand, after it was seen to be what
the entry says. So the guard tree is built exactly as it was by the process that compiled (guarding/check.py), over
values that are equal in all that it looks at.

In torch: the serialised guards of torch/_dynamo/guards.py (pickled). Read next: nbcompile/fast/disk_cache/programs.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import torch
import torch.utils._device

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards, TensorFacts, TensorMarks
from nbcompile.capture.source import Source
from nbcompile.fast.disk_cache.addresses import SourceWriter, known_text, read_key
from nbcompile.fast.disk_cache.descriptions import alike, describe, memoized, tensor_facts
from nbcompile.fast.disk_cache.literals import NotStorable, Unreadable, decode, encode
from nbcompile.guarding.accessors import SourceCache
from nbcompile.guarding.ambient import inlined_hooks
from nbcompile.record.model import StackLine

Kind = GuardKind


def write(guards: Iterable[Guard], written: SourceWriter) -> list[Any]:
    """Guards as JSON.

    Raises:
        NotStorable: one expects what only this process has.
    """
    with memoized():
        return [_write(guard, written) for guard in guards]


def _write(guard: Guard, written: SourceWriter) -> list[Any]:
    index = None if guard.source is None else written.number_of(guard.source)
    try:
        more = [[list(each) for each in guard.members]] if guard.members else []
        return [guard.kind.name, index, _FORMS[guard.kind].write(guard, written), *more]
    # The reason names the guard: it is shown in the record as what prevents storing.
    except NotStorable as reason:
        where = "" if guard.source is None else f" {known_text(guard.source)}"
        raise NotStorable(f"{guard.kind}{where}: {reason}") from None


def read(data: list[Any], sources: list[Source], known: SourceCache) -> tuple[Guard, ...]:
    """The guards, about the values of the call that ``known`` knows.

    Raises:
        Unreadable: one of them cannot hold here.
    """
    with memoized():
        return tuple(_read_row(row, sources, known) for row in data)


def _read_row(row: list[Any], sources: list[Source], known: SourceCache) -> Guard:
    name, index, stored, *members = row
    guard = _read(GuardKind[name], index, stored, sources, known)
    return replace(guard, members=tuple((name, kind) for name, kind in members[0])) if members else guard


def _read(kind: GuardKind, index: int | None, stored: Any, sources: list[Source], known: SourceCache) -> Guard:
    source = None if index is None else sources[index]
    return Guard(source, kind, _FORMS[kind].read(_StoredExpectation(source, stored, sources, known)))


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredExpectation:
    """An expectation as an entry has it, and the call for which it is read."""

    source: Source | None
    data: Any
    sources: list[Source]
    known: SourceCache

    def value(self) -> Any:
        """The value at the guard's source in this process."""
        assert self.source is not None
        return self.known.value(self.source)

    def expect_same(self, now: Any) -> None:
        """Raise Unreadable if something is described otherwise than it was."""
        if not alike(now, self.data):
            about = known_text(self.source) if self.source is not None else "the state of the process"
            raise Unreadable(f"{about} is another now")


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """Pair of functions: what a kind of guard expects, as JSON, and the same in the process that reads it."""

    write: Callable[[Guard, SourceWriter], Any]
    read: Callable[[_StoredExpectation], Any]


# -- one form for each kind -------------------------------------------------------------------------------------------


def _of_value(take: Callable[[Any], object]) -> Form:
    """Form of an object, which another process cannot load.

    The entry has its description, and the guard expects what is at the same source there, if that is described alike.
    """

    def read(stored: _StoredExpectation) -> object:
        expected = take(stored.value())
        stored.expect_same(_described(expected))
        return expected

    return Form(lambda guard, written: describe(guard.expected), read)


def _of_process(describe_state: Callable[[], Any], expected: object = None) -> Form:
    """Form of a state of the process: the guard is about that of the moment, if it is described alike."""

    def read(stored: _StoredExpectation) -> object:
        try:
            now = describe_state()
        except NotStorable as reason:
            raise Unreadable(str(reason)) from None
        stored.expect_same(now)
        return expected

    return Form(lambda guard, written: describe_state(), read)


def _write_tensor(guard: Guard, written: SourceWriter) -> list[Any]:
    assert guard.source is not None
    facts = cast("TensorFacts", guard.expected)
    value = cast("torch.Tensor", written.known.value(guard.source))
    return [encode(facts.sizes), encode(facts.strides), tensor_facts(value)]


def _read_tensor(stored: _StoredExpectation) -> TensorFacts:
    # Class, dtype, device and keys are compared now; the sizes are left to the guard.
    sizes, strides, facts = stored.data
    replace(stored, data=facts).expect_same(tensor_facts(stored.value()))
    return TensorFacts(decode(sizes), decode(strides))


def _read_keys(stored: _StoredExpectation) -> tuple[object, ...]:
    keys = tuple(stored.value())
    stored.expect_same([_described(key) for key in keys])
    return keys


def _write_marks(guard: Guard, written: SourceWriter) -> list[Any]:
    marks = cast("TensorMarks", guard.expected)
    return [[[name, sorted(dims)] for name, dims in marks.present], list(marks.absent)]


def _read_marks(stored: _StoredExpectation) -> TensorMarks:
    present, absent = stored.data
    return TensorMarks(tuple((name, frozenset(dims)) for name, dims in present), tuple(absent))


def _write_shapes(guard: Guard, written: SourceWriter) -> list[Any]:
    shapes = cast("ShapeGuards", guard.expected)
    stacks = [[list(dataclasses.astuple(line)) for line in stack] for stack in shapes.stacks]
    about = [written.number_of(source) for source in shapes.sources]
    return [list(shapes.expressions), about, stacks, list(shapes.notes)]


def _read_shapes(stored: _StoredExpectation) -> ShapeGuards:
    expressions, about, lines, notes = stored.data
    stacks = tuple(tuple(StackLine(*line) for line in stack) for stack in lines)
    return ShapeGuards(tuple(expressions), tuple(stored.sources[at] for at in about), stacks, tuple(notes))


def _global_state() -> Any:
    if torch_internals.forward_level() >= 0:
        raise NotStorable("a level of forward-mode AD is active")
    # The tree compares tensors under the keys of the thread, which alone tell inference_mode from no_grad.
    return [torch_internals.guards.GlobalStateGuard().__getstate__(), list(torch_internals.thread_keys())]


def _function_modes() -> Any:
    if torch_internals.function_modes():
        raise NotStorable("a torch function mode is active")
    return []


def _transforms() -> Any:
    if torch_internals.in_transform():
        raise NotStorable("a transform of torch.func is active")
    return []


def _saved_tensors_hooks() -> Any:
    if inlined_hooks() is not None:
        raise NotStorable("hooks on saved tensors are traced into the graph")
    return None


def _never_stored(guard: Guard, written: SourceWriter) -> Any:
    raise NotStorable("no form for it")


def _described(value: object) -> Any:
    try:
        return describe(value)
    except NotStorable:
        return None


_VALUE = _of_value(lambda value: value)
_LITERAL = Form(lambda guard, written: encode(guard.expected), lambda stored: decode(stored.data))
"""Form of a literal; whether it holds, the guard itself finds out."""
_KEY = Form(
    lambda guard, written: [written.key(cast("Any", guard.expected)[0]), cast("Any", guard.expected)[1]],
    lambda stored: (read_key(stored.data[0], stored.sources, stored.known), decode(stored.data[1])),
)
"""Form of a key, which may be a class, and whether it is there."""
_KEYS = Form(lambda guard, written: [describe(key) for key in cast("Any", guard.expected)], _read_keys)
_SOURCES = Form(
    lambda guard, written: [written.number_of(source) for source in cast("tuple[Source, ...]", guard.expected)],
    lambda stored: tuple(stored.sources[at] for at in stored.data),
)
_FORMS: dict[GuardKind, Form] = {
    Kind.TYPE_MATCH: _of_value(type),
    Kind.ID_MATCH: _VALUE,
    Kind.FUNCTION_MATCH: _VALUE,
    Kind.NONE_MATCH: _VALUE,
    Kind.BOOL_MATCH: _VALUE,
    Kind.EQUALS_MATCH: _VALUE,
    Kind.NAN_MATCH: _VALUE,
    Kind.SEQUENCE_LENGTH: _LITERAL,
    Kind.DICT_LENGTH: _LITERAL,
    Kind.DICT_KEYS: _KEYS,
    Kind.DICT_CONTAINS: _KEY,
    Kind.SET_CONTAINS: _KEY,
    Kind.SET_MEMBERS: _of_value(frozenset),
    Kind.SET_ORDER: _KEYS,
    Kind.HASATTR: _LITERAL,
    Kind.NOT_IN_GENERIC_DICT: _LITERAL,
    Kind.TUPLE_ITERATOR_LEN: _LITERAL,
    Kind.RANGE_ITERATOR_MATCH: _LITERAL,
    Kind.TENSOR_MATCH: Form(_write_tensor, _read_tensor),
    Kind.TENSOR_SUBCLASS_METADATA_MATCH: Form(_never_stored, lambda stored: None),
    Kind.TENSOR_PROPERTY: _LITERAL,
    Kind.DIMENSION_MARKING: Form(_write_marks, _read_marks),
    Kind.OBJECT_ALIASING: Form(
        lambda guard, written: written.number_of(cast("Source", guard.expected)),
        lambda stored: stored.sources[stored.data],
    ),
    Kind.NO_OBJECT_ALIASING: _SOURCES,
    Kind.NO_TENSOR_ALIASING: _SOURCES,
    Kind.SHAPE_ENV: Form(_write_shapes, _read_shapes),
    Kind.GLOBAL_STATE: _of_process(_global_state),
    Kind.TORCH_FUNCTION_MODE_STACK: _of_process(_function_modes, ()),
    Kind.DEFAULT_DEVICE: _of_process(lambda: str(torch.utils._device.CURRENT_DEVICE)),
    Kind.TRANSFORMS: _of_process(_transforms, ()),
    Kind.SAVED_TENSORS_HOOKS: _of_process(_saved_tensors_hooks),
}
