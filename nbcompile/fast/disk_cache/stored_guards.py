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
_LITERAL = frozenset(
    {
        Kind.SEQUENCE_LENGTH, Kind.DICT_LENGTH, Kind.HASATTR, Kind.NOT_IN_GENERIC_DICT,
        Kind.TUPLE_ITERATOR_LEN, Kind.RANGE_ITERATOR_MATCH, Kind.TENSOR_PROPERTY,
    }
)  # fmt: skip
"""Their ``expected`` is a literal; whether it holds, the guard itself finds out."""
_OF_KEYS = (Kind.DICT_CONTAINS, Kind.SET_CONTAINS)
"""Their ``expected`` is a key, which may be a class, and whether it is there."""
_OF_VALUE: dict[GuardKind, Callable[[object], object]] = {
    Kind.TYPE_MATCH: type,
    Kind.ID_MATCH: lambda value: value,
    Kind.FUNCTION_MATCH: lambda value: value,
    Kind.EQUALS_MATCH: lambda value: value,
    Kind.NAN_MATCH: lambda value: value,
    Kind.BOOL_MATCH: lambda value: value,
    Kind.NONE_MATCH: lambda value: value,
}
"""Their ``expected`` is taken from the value at their source."""


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
        return [guard.kind.name, index, _expected(guard, written), *more]
    # The reason names the guard: it is shown in the record as what prevents storing.
    except NotStorable as reason:
        where = "" if guard.source is None else f" {known_text(guard.source)}"
        raise NotStorable(f"{guard.kind}{where}: {reason}") from None


def _expected(guard: Guard, written: SourceWriter) -> Any:
    kind, expected = guard.kind, cast("Any", guard.expected)
    if kind in _OF_VALUE:
        return describe(expected)
    if kind in _OF_KEYS:
        return [written.key(expected[0]), expected[1]]
    if kind in _LITERAL:
        return encode(expected)
    match kind:
        case Kind.TENSOR_MATCH:
            assert guard.source is not None
            value = cast("torch.Tensor", written.known.value(guard.source))
            return [encode(expected.sizes), encode(expected.strides), tensor_facts(value)]
        case Kind.DICT_KEYS:
            return [describe(key) for key in expected]
        case Kind.DIMENSION_MARKING:
            return [[[name, sorted(dims)] for name, dims in expected.present], list(expected.absent)]
        case Kind.OBJECT_ALIASING:  # ``expected`` is another source
            return written.number_of(expected)
        case Kind.NO_OBJECT_ALIASING | Kind.NO_TENSOR_ALIASING:
            return [written.number_of(each) for each in expected]
        case Kind.SHAPE_ENV:
            stacks = [[list(dataclasses.astuple(line)) for line in stack] for stack in expected.stacks]
            about = [written.number_of(each) for each in expected.sources]
            return [list(expected.expressions), about, stacks, list(expected.notes)]
        case _:
            return _state_of_process(kind)


def _state_of_process(kind: GuardKind) -> Any:
    match kind:
        case Kind.GLOBAL_STATE:
            if torch_internals.forward_level() >= 0:
                raise NotStorable("a level of forward-mode AD is active")
            # The tree compares tensors under the keys of the thread, which alone tell inference_mode from no_grad.
            return [torch_internals.guards.GlobalStateGuard().__getstate__(), list(torch_internals.thread_keys())]
        case Kind.TORCH_FUNCTION_MODE_STACK:
            if torch_internals.function_modes():
                raise NotStorable("a torch function mode is active")
            return []
        case Kind.DEFAULT_DEVICE:
            return str(torch.utils._device.CURRENT_DEVICE)
        case Kind.TRANSFORMS:
            if torch_internals.in_transform():
                raise NotStorable("a transform of torch.func is active")
            return []
        case Kind.SAVED_TENSORS_HOOKS:
            if inlined_hooks() is not None:
                raise NotStorable("hooks on saved tensors are traced into the graph")
            return None
    raise NotStorable("no form for it")


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
    # What a guard expects is an object, which another process cannot load. So the entry has a description, and the
    # guard expects the object that is at the same source in this process, if its description is the same.
    if kind in _OF_VALUE and source is not None:
        expected = _OF_VALUE[kind](known.value(source))
        _same(_described(expected), stored, source)
        return Guard(source, kind, expected)
    if kind in _OF_KEYS:
        return Guard(source, kind, (read_key(stored[0], sources, known), decode(stored[1])))
    if kind in _LITERAL:
        return Guard(source, kind, decode(stored))
    match kind:
        case Kind.TENSOR_MATCH if source is not None:
            # Class, dtype, device and keys are compared now; the sizes are left to the guard.
            sizes, strides, facts = stored
            _same(tensor_facts(cast("torch.Tensor", known.value(source))), facts, source)
            return Guard(source, kind, TensorFacts(decode(sizes), decode(strides)))
        case Kind.DICT_KEYS if source is not None:
            keys = tuple(cast("Any", known.value(source)))
            _same([_described(key) for key in keys], stored, source)
            return Guard(source, kind, keys)
        case Kind.DIMENSION_MARKING:
            present = tuple((name, frozenset(dims)) for name, dims in stored[0])
            return Guard(source, kind, TensorMarks(present, tuple(stored[1])))
        case Kind.OBJECT_ALIASING:
            return Guard(source, kind, sources[stored])
        case Kind.NO_OBJECT_ALIASING | Kind.NO_TENSOR_ALIASING:
            return Guard(source, kind, tuple(sources[each] for each in stored))
        case Kind.SHAPE_ENV:
            expressions, about, lines, notes = stored
            stacks = tuple(tuple(StackLine(*line) for line in stack) for stack in lines)
            subjects = tuple(sources[each] for each in about)
            return Guard(source, kind, ShapeGuards(tuple(expressions), subjects, stacks, tuple(notes)))
    # They expect no value: the guard is about the state of this moment, which was compared just now.
    _same(_described_state(kind), stored, source)
    return Guard(source, kind, () if kind in (Kind.TORCH_FUNCTION_MODE_STACK, Kind.TRANSFORMS) else None)


def _described(value: object) -> Any:
    try:
        return describe(value)
    except NotStorable:
        return None


def _described_state(kind: GuardKind) -> Any:
    try:
        return _state_of_process(kind)
    except NotStorable as reason:
        raise Unreadable(str(reason)) from None


def _same(now: Any, stored: Any, source: Source | None) -> None:
    if not alike(now, stored):
        raise Unreadable(f"{known_text(source) if source is not None else 'the state of the process'} is another now")
