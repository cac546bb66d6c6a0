"""Writer and reader of the guards of an entry on disk: JSON, in the form that each kind has.

    write(guards) -> [["TYPE_MATCH", 0, class of L['self'] in words], ["EQUALS_MATCH", 1, 3], ...]

The second item is the number of the guard's source in the entry; the forms of the third are in
guarding/encodings/stored_forms.py. The guard tree is built exactly as it was by the process that compiled
(guarding/check.py), over values that are equal in all that it looks at.

In torch: the serialised guards of torch/_dynamo/guards.py (pickled). Read next: nbcompile/fast/disk_cache/programs.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.capture.source import Source
from nbcompile.fast.disk_cache.addresses import SourceWriter, known_text, read_key
from nbcompile.fast.disk_cache.descriptions import alike, describe, memoized, tensor_facts
from nbcompile.guarding.accessors import SourceCache
from nbcompile.guarding.encodings.stored_forms import Form
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES


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
        form = _form(guard.kind)
        if isinstance(form, str):
            raise NotStorable(form)
        more = [[list(each) for each in guard.members]] if guard.members else []
        return [guard.kind.name, index, form.write(guard, written), *more]
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
    source, form = None if index is None else sources[index], _form(kind)
    if isinstance(form, str):
        raise Unreadable(form)
    return Guard(source, kind, form.read(_StoredExpectation(source, stored, sources, known)))


def _form(kind: GuardKind) -> Form | str:
    row = LEAVES.get(kind) or AMBIENT[kind]
    return row.stored


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

    def key(self, data: Any) -> object:
        """The key of a dict that :meth:`SourceWriter.key` wrote."""
        return read_key(data, self.sources, self.known)

    def describe(self, value: object) -> Any:
        """An object in words; None if it has no such description."""
        try:
            return describe(value)
        except NotStorable:
            return None

    def tensor_facts(self) -> Any:
        """Class, dtype, device and keys of the tensor at the guard's source."""
        return tensor_facts(self.value())

    def expect_same(self, now: Any, was: Any) -> None:
        """Raise Unreadable if something is described otherwise than it was."""
        if not alike(now, was):
            about = known_text(self.source) if self.source is not None else "the state of the process"
            raise Unreadable(f"{about} is another now")
