"""Stores one compiled frame in the compile cache, and loads it in a later process.

    store(...)     after a compile: guards, program and kernels as data, which writer.py writes when the call is over;
                   or the reason why not
    load(...)      at a call that no code accepts: the first entry whose guards hold of that very call

Nothing is traced, lowered or compiled by ``load``; neither SymPy nor torch's own compiler is imported. What it
returns is a ``CompiledFrame`` like any other: same guards (in torch's C++ tree), same residual program.

In torch: torch/_dynamo/precompile_context.py. Read next: docs/design/warm_start.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture import operator_warnings
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, subclass_checks
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.capture.source import Source
from nbcompile.capture.trace import Assumptions
from nbcompile.dispatch import observed_values
from nbcompile.fast import guard_groups
from nbcompile.fast.disk_cache import (
    addresses,
    descriptions,
    graphs,
    kernel_table,
    keys,
    object_lookup,
    programs,
    record_pages,
    state,
    storage,
    stored_guards,
    stored_warnings,
    writer,
)
from nbcompile.fast.disk_cache.addresses import SourceWriter
from nbcompile.guarding import check as guarding
from nbcompile.guarding.accessors import SourceCache
from nbcompile.guarding.check import GuardsDoNotHold
from nbcompile.hooks import CompiledParts
from nbcompile.options import Options
from nbcompile.record.recorder import FrameDraft
from nbcompile.rewriting.residual import Residual
from nbcompile.support.error_handler import ErrorHandler


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that is good for a call."""

    residual: Residual | None
    """The program; None if there is nothing to compile in the frame."""
    check: guarding.FrameCheck
    page: dict[str, Any]
    """The record of the compile; {} if no recorder was active."""
    is_own: bool
    """True if this process compiled it, for a code object that was equal."""
    skip_reason: str = ""


def store(frame: Frame, options: Options, parts: CompiledParts, draft: FrameDraft | None) -> None:
    """Store a compiled frame in the compile cache; the record gives the reason if that is impossible.

    The objects of the program are described now, as they may have changed when the call is over.
    """
    with _recorded_errors(frame.code.co_qualname, draft):
        key = keys.key(frame.code, options)
        # What belongs to this call (values, sources) is described now; the graph's part may come later, from the
        # backward or a compilation in the background.
        with descriptions.memoized():
            graph = parts.trace.graph
            inputs = [graph_input.source for graph_input in graph.inputs] if graph else []
            content = _entry_content(frame, parts.trace.assumed, parts.guards, inputs)
            content["program"] = programs.write(parts.residual, frame, parts.function)
            shown = operator_warnings.of_graph(graph.module) if graph else ()
            content["warnings"] = stored_warnings.write(shown, frame.code)

        def finish() -> None:
            with _recorded_errors(frame.code.co_qualname, draft):
                compiled = None if parts.function is None else graphs.write(parts.artifact)
                write_later(key, {**content, "graph": compiled}, frame, draft)

        # ``ready`` is a list while something of the graph is still to be compiled.
        if parts.artifact.ready is None:
            finish()
        else:
            parts.artifact.ready.append(finish)


def store_skipped(frame: Frame, options: Options, reason: str, guards: tuple[Guard, ...], assumed: Assumptions) -> None:
    """Store that there is nothing to compile in a frame: later processes need no trace to find out."""
    with _recorded_errors(frame.code.co_qualname, None), descriptions.memoized():
        content = _entry_content(frame, assumed, guards, [])
        write_later(keys.key(frame.code, options), {**content, "graph": None, "skip_reason": reason}, frame, None)


def write_later(key: str, content: dict[str, Any], frame: Frame, draft: FrameDraft | None) -> None:
    """Queue an entry for the writer: converting it to text takes longer than everything else."""
    where, name = storage.folder(key).absolute(), frame.code.co_qualname
    shown = None if draft is None else draft.frame()

    def write() -> None:
        with _recorded_errors(name, draft):
            if not storage.add(key, content, None if shown is None else record_pages.write(shown), where):
                _record_note(draft, "not stored in the compile cache: the disk cannot be written")

    _record_note(draft, STORED)
    writer.enqueue(key, write)


STORED = "stored in the compile cache"
"""The note in the record: before the entry is written, and after."""


def _recorded_errors(function: str, draft: FrameDraft | None) -> ErrorHandler:
    """Record an error of the block: the compiled frame is valid, and is not stored."""

    def record(error: Exception) -> None:
        what = str(error) if isinstance(error, NotStorable) else f"{type(error).__name__}: {error}"
        if not isinstance(error, NotStorable):
            storage.warn("unwritable", f"{function} cannot be stored in the compile cache ({what})")
        _record_note(draft, f"not stored in the compile cache: {what}")

    return ErrorHandler(Exception, record)


def _record_note(draft: FrameDraft | None, text: str) -> None:
    if draft is not None:
        draft.write(store=text)
        draft.rewrite()  # the call may be over


def _entry_content(
    frame: Frame, assumed: Assumptions, guards: tuple[Guard, ...], inputs: Sequence[Source]
) -> dict[str, Any]:
    # The trace used something that no other process can check, as the order of a set: the entry would be wrong there.
    if assumed.obstacle:
        raise NotStorable(assumed.obstacle)
    written = SourceWriter(SourceCache(frame.scope()))
    content: dict[str, Any] = {
        "function": frame.code.co_qualname,
        "guards": stored_guards.write(guards, written),
        "assumed": _assumed(assumed, guards, written, frame),
        "inputs": [written.number_of(source) for source in inputs],
        "gradient_bytes": _gradient_bytes([SourceCache(frame.scope()).value(source) for source in inputs])
        if keys.buckets()
        else [],
        "launches": kernel_table.write(assumed, written),
    }
    return {**content, "addresses": written.data()}


def _gradient_bytes(values: Sequence[object]) -> list[int]:
    """Bytes of the gradients that are sent of a graph's inputs: they decide where it is split."""
    return [torch_internals.sent_bytes(value) for value in values]


def _assumed(assumed: Assumptions, guards: tuple[Guard, ...], written: SourceWriter, frame: Frame) -> dict[str, Any]:
    members = [[written.number_of(source), descriptions.describe(value)] for source, value in assumed.members.items()]
    # The key of the entry covers the frame's own code, and a guard the code of a guarded function. Other functions that
    # were inlined are compared by a digest when the entry is loaded.
    # Equal code counts: the bytecode of a function is read once, and what is nested in it comes from the first.
    covered = set(_covered(guards, frame))
    codes = [
        object_lookup.named_code(code, module)
        for code, module in assumed.codes.values()
        if code not in covered and not descriptions.is_trusted(module)
    ]
    subclasses = [
        [_addressed(subject, written), _addressed(cls, written), answer] for subject, cls, answer in assumed.subclasses
    ]
    return {
        "members": members,
        "codes": codes,
        "subclasses": subclasses,
        "constant_results": [_constant_result(*each) for each in assumed.constant_results],
        "initialisers": state.write(assumed.initialisers, written),
    }


def _constant_result(
    function: object, arguments: tuple[object, ...], named: dict[str, object], answer: str
) -> list[Any]:
    return [
        object_lookup.findable(function),
        encode(arguments),
        [[key, encode(each)] for key, each in named.items()],
        answer,
    ]


def _addressed(subject: Source | type, written: SourceWriter) -> int | descriptions.Description:
    """A value by its address, or a class by a description with which it is found."""
    return object_lookup.findable(subject) if isinstance(subject, type) else written.number_of(subject)


def _covered(guards: tuple[Guard, ...], frame: Frame) -> list[CodeType]:
    """The code that guards or the key answer for: of guarded functions, and all that is nested in it."""
    codes = [frame.code]
    for guard in guards:
        code = getattr(guard.expected, "__code__", None)
        if isinstance(code, CodeType):
            codes.append(code)
    for code in codes:
        codes.extend(nested for nested in code.co_consts if isinstance(nested, CodeType))
    return codes


def load(frame: Frame, options: Options, with_page: bool) -> Found | None:
    """The entry of an earlier process whose guards hold for this call (with its record page, if requested)."""
    try:
        key = keys.key(frame.code, options)
    except NotStorable:
        return None
    # An entry of this key may still be in this process's queue.
    writer.flush(key, writer.TIMEOUT)
    for path, content in storage.entries(key):
        record = storage.record(path) if with_page else {}
        if record is None or (record and record.get("file") != frame.code.co_filename):
            continue  # compiled unwatched, or in another file: the page would say nothing, or the wrong line
        try:
            if record:
                record_pages.read(record)
            residual, check = _read(content, frame)
        # None of these is an error: the entry is of other values, other libraries or another state.
        except (Unreadable, NotStorable, GuardsDoNotHold):
            continue
        except Exception as error:  # noqa: BLE001 - whatever is in a file, the call continues
            storage.warn("unreadable", f"{path} cannot be used ({type(error).__name__}: {error})")
            continue
        storage.touch(path)
        return Found(residual, check, record, storage.is_own(path), content.get("skip_reason", ""))
    return None


def _read(content: dict[str, Any], frame: Frame) -> tuple[Residual | None, guarding.FrameCheck]:
    # An optimiser creates its state in its first step. The trace did so before it read it, so addresses of the entry
    # may lead into state that is not there yet. Then come, from cheap to expensive: addresses and classes of values,
    # assumptions, guards, and the building of the graph.
    if content["assumed"]["initialisers"]:
        _make_state(content, SourceCache(frame.scope()))
    known = SourceCache(frame.scope())
    sources = addresses.read(content["addresses"], known)
    _expect(content["assumed"], sources, known)
    subclasses = _expect_subclasses(content["assumed"], sources, known)
    _expect_constant_results(content["assumed"])
    guards = tuple(
        replace(guard, expected=subclasses) if guard.kind is GuardKind.SUBCLASSES else guard
        for guard in stored_guards.read(content["guards"], sources, known)
    )
    check = _check(guards, frame)
    if "skip_reason" in content:
        return None, check
    if (
        keys.buckets()
        and _gradient_bytes([known.value(sources[each]) for each in content["inputs"]]) != content["gradient_bytes"]
    ):
        raise Unreadable("its graph is split for other gradients")
    table = kernel_table.read(content["launches"], sources, known)
    graph = None if content["graph"] is None else graphs.read(content["graph"], table)
    residual = programs.read(content["program"], frame, graph)
    passing = stored_warnings.filtered(stored_warnings.read(content["warnings"], frame.code))
    with torch._C.DisableTorchFunction():  # no ``__torch_function__`` may see these reads
        # As after a trace: what was seen of sizes decides what a later compilation makes dynamic.
        observed_values.note(frame, guards, [sources[each] for each in content["inputs"]])
    # Last: an entry that is not used shows none, as the compilation that follows does.
    for warning in passing:
        warning.show()
    return residual, check


def _expect(assumed: dict[str, Any], sources: list[Source], known: SourceCache) -> None:
    for index, expected in assumed["members"]:
        if not descriptions.alike(descriptions.describe(known.value(sources[index])), expected):
            raise Unreadable(f"{addresses.known_text(sources[index])} is another one now")
    for expected in assumed["codes"]:
        object_lookup.expect_code(expected)


def _expect_subclasses(
    assumed: dict[str, Any], sources: list[Source], known: SourceCache
) -> tuple[tuple[type, type, bool], ...]:
    """Results of checks against abstract classes, without the values, if they are the same in this process."""
    checked = []
    for subject, known_class, answer in assumed["subclasses"]:
        cls: Any = (
            known.value(sources[known_class]) if isinstance(known_class, int) else object_lookup.find(known_class)
        )
        if isinstance(subject, int):
            value = known.value(sources[subject])
            now = issubclass(value, cls) if isinstance(value, type) else isinstance(value, cls)
        else:
            value = object_lookup.find(subject)
            now = issubclass(value, cls)
        if now is not answer:
            raise Unreadable(f"{cls.__qualname__} gives another result of a subclass check")
        checked.append((value, cls, answer))
    return subclass_checks(checked)


def _expect_constant_results(assumed: dict[str, Any]) -> None:
    # The library function is called again in this process, with the same arguments: its result must be the same.
    for described, arguments, named, expected in assumed["constant_results"]:
        function = object_lookup.find(described)
        if repr(function(*decode(arguments), **{name: decode(each) for name, each in named})) != expected:
            raise Unreadable(f"{function.__qualname__} returns another result in this process")


def _make_state(content: dict[str, Any], known: SourceCache) -> None:
    """Make the state that the trace created before it read it: if it is not there, and all else is as it was then."""
    absent: set[Source] = set()
    sources = addresses.read(content["addresses"], known, absent)
    if not absent:
        return
    _expect(content["assumed"], sources, known)
    there = [row for row in content["guards"] if row[1] is None or sources[row[1]] not in absent]
    stored_guards.read(there, sources, known)
    state.make(content["assumed"]["initialisers"], sources, known)


def _check(guards: tuple[Guard, ...], frame: Frame) -> guarding.FrameCheck:
    return guarding.build_check(guards, frame, guard_groups.maker(guards))
