"""Recorder of compilations: stages write to it, and none reads from it.

A :class:`Recorder` collects finished frames; a :class:`FrameDraft` is the unfinished entry of the frame that is being
compiled. Both only receive data and return nothing that the compiler could depend on, so the compiler behaves the same
with and without a recorder. With no recorder active, ``draft()`` is None and
recording costs one look-up per frame.

In torch: nothing; read next nbcompile/recording/entries.py, which turns compiler values
into entries.
"""

from __future__ import annotations

import contextvars
import dataclasses
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from typing import Literal, Protocol

from nbcompile.record import model
from nbcompile.support.context_variables import bound
from nbcompile.support.process_state import STATE, Lifetime

_recorders: contextvars.ContextVar[tuple[Recorder, ...]] = contextvars.ContextVar("nbcompile_recorders", default=())
_draft: contextvars.ContextVar[FrameDraft | None] = contextvars.ContextVar("nbcompile_draft", default=None)


Threads = Literal["own", "new", "all"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Stage that is running."""

    compile_id: str
    function: str
    stage: str
    began: float
    """Start of the frame's compilation, in seconds of ``time.perf_counter``."""


@dataclass(slots=True)
class Recorder:
    """Collects the frames that are compiled while it is active."""

    function: str
    environment: model.Environment = field(default_factory=model.Environment)
    frames: list[model.CompiledFrame] = field(default_factory=list)
    timings: list[model.Timing] = field(default_factory=list)
    calls: list[model.Call] = field(default_factory=list)
    raised: model.Raised | None = None
    active: Phase | None = None
    """None while nothing is compiled."""
    shows_breaks: bool = False
    """True if its view shows graph breaks to the user, so that no warning is needed."""

    def record(self) -> model.Record:
        """Everything recorded so far, as data; recording continues."""
        frames, timings, calls = tuple(self.frames), tuple(self.timings), tuple(self.calls)
        return model.Record(self.function, self.environment, frames, timings, calls, self.raised)

    @contextmanager
    def listening(self, *, threads: Threads = "own") -> Iterator[Recorder]:
        """Receive every frame compiled inside the block: in this context, and in other threads if asked.

        Args:
            threads: "own", only this context's; "new", also those that start while the block runs, whoever starts
                them: a new thread has an empty context, but a cell of a notebook is the only thing that runs;
                "all", every thread of the process.
        """
        # A token of its own: the same recorder may listen twice, one inside of the other.
        mine = _Listening(self, _others(threads))
        with bound(_recorders, (*_recorders.get(), self)):
            try:  # Ctrl-C may come after any call
                watching.append(mine)
                yield self
            finally:
                if mine in watching:
                    watching.remove(mine)

    def note_call(self, call: model.Call) -> None:
        """Keep one call; hits of one entry in a row are one entry of the list."""
        last = self.calls[-1] if self.calls else None
        # A call with a compile is never merged with others: it is the event that a reader looks for.
        if last is not None and not call.compiled and dataclasses.replace(last, times=1) == call:
            self.calls[-1] = dataclasses.replace(last, times=last.times + 1)
        else:
            self.calls.append(call)


class Subscriber(Protocol):
    """Receives each finished frame of the process, whatever recorder is active: logs and traces."""

    def wants_frames(self) -> bool:
        """Return whether frames are to be recorded; called once per compile."""

    def wants_steps(self) -> bool:
        """Return whether the steps of the trace are to be recorded, too."""

    def during(self, compile_id: str) -> AbstractContextManager[None]:
        """Return the context in which a recorded frame is compiled."""

    def receive(self, frame: model.CompiledFrame, timings: Sequence[model.Timing]) -> None:
        """Take a finished frame."""


subscribers: list[Subscriber] = []
"""All that there are; nbcompile/observe/ adds them."""


watching: list[object] = STATE.add("record.recorder.watching", [], Lifetime.TASK)
"""Marker that a call of a compiled function reads: not empty while a recorder or log is active in any context."""


@dataclass(frozen=True, slots=True, eq=False)
class _Listening:
    """A block in which a recorder is active."""

    recorder: Recorder
    other_threads: weakref.WeakSet[threading.Thread] | None
    """The threads that do not belong to the block; None: only the context of the block does."""


def _others(threads: Threads) -> weakref.WeakSet[threading.Thread] | None:
    if threads == "own":
        return None
    return weakref.WeakSet(threading.enumerate() if threads == "new" else ())


def _active() -> tuple[Recorder, ...]:
    """The recorders of this context, and those of blocks in which this thread started."""
    recorders = _recorders.get()
    if recorders or not watching:
        return recorders
    thread = threading.current_thread()
    return tuple(
        block.recorder
        for block in watching.copy()
        if isinstance(block, _Listening) and block.other_threads is not None and thread not in block.other_threads
    )


class FrameDraft:
    """Entries of the frame that is being compiled.

    Set any field of :class:`model.CompiledFrame` with :meth:`write`; grow a
    tuple field with :meth:`add`. What a backend does goes to
    :attr:`graph_fields` in the same way, under the names of
    :class:`model.CompiledGraph`.
    """

    def __init__(self, compile_id: str, function: str) -> None:
        self.compile_id = compile_id
        self.frame_fields: dict[str, object] = {
            "id": compile_id,
            "function": function,
            "file": "",
            "first_line": 0,
            "source": "",
            # Until a stage writes another status: so the status is right for any exception.
            "status": "failed",
            "cause": "first call",
        }
        self.graph_fields: dict[str, object] = {}
        self.timings: list[model.Timing] = []
        self.began = time.perf_counter()
        self.stages: list[str] = []
        """Running stages, outermost first."""
        self._positions: list[tuple[Recorder, int]] = []

    def write(self, **entries: object) -> None:
        """Set fields of the frame."""
        self.frame_fields.update(entries)

    def add(self, name: str, *entries: object) -> None:
        """Append to a tuple field of the frame."""
        self.frame_fields[name] = (*self.frame_fields.get(name, ()), *entries)  # type: ignore[misc]

    def write_graph(self, **entries: object) -> None:
        """Set fields of the backend's result for the frame's graph."""
        self.graph_fields.update(entries)

    def add_to_graph(self, name: str, *entries: object) -> None:
        """Append to a tuple field of the backend's result."""
        self.graph_fields[name] = (*self.graph_fields.get(name, ()), *entries)  # type: ignore[misc]

    def interrupted(self, stage: str) -> None:
        """Status of a compilation that Ctrl-C interrupted, with the innermost stage."""
        text = f"interrupted in {stage}: nothing of it is kept, the next call compiles again"
        # The exception leaves the innermost stage first, which is named in the status; the stages around it do not
        # change that.
        self.frame_fields.setdefault("skip_reason", text)
        self.frame_fields.update(status="failed", instead=model.INTERRUPTED)

    def raised(self, error: BaseException) -> None:
        """The compiler raised: nothing of the call runs."""
        self.frame_fields.setdefault("skip_reason", type(error).__name__)
        self.frame_fields.update(status="failed", instead=model.RAISED)

    def hand_in(self, recorder: Recorder) -> None:
        """Add the finished frame to the record."""
        # Each recorder that has the frame is stored, so that a background thread can replace it there later.
        self._positions.append((recorder, len(recorder.frames)))
        recorder.frames.append(self.frame())
        recorder.timings.extend(self.timings)

    def rewrite(self) -> None:
        """Replace the frame in the records that have it: a background compilation wrote to it later."""
        for recorder, index in self._positions:
            recorder.frames[index] = self.frame()

    def frame(self) -> model.CompiledFrame:
        """The frame as data, also when it is unfinished."""
        entries = dict(self.frame_fields)
        if self.graph_fields:
            entries["compiled_graph"] = model.CompiledGraph(**{"backend": "", **self.graph_fields})  # type: ignore[arg-type]
        known = {each.name for each in fields(model.CompiledFrame)}
        assert entries.keys() <= known, f"unknown fields {sorted(entries.keys() - known)}"
        return model.CompiledFrame(**entries)  # type: ignore[arg-type]


def listening() -> bool:
    """Return whether a recorder or a log is active."""
    return bool(_active()) or any(subscriber.wants_frames() for subscriber in subscribers)


def wants_steps() -> bool:
    """Return whether a log prints each instruction that is traced."""
    return any(subscriber.wants_steps() for subscriber in subscribers)


def shows_breaks() -> bool:
    """Return whether a view will show the graph breaks to the user."""
    return any(each.shows_breaks for each in _active())


def note_call(call: model.Call) -> None:
    """Record a call of a compiled function."""
    for recorder in _active():
        recorder.note_call(call)


def draft() -> FrameDraft | None:
    """Draft of the frame that is being compiled; None if no recorder is active."""
    return _draft.get()


@contextmanager
def frame(compile_id: str, function: str) -> Iterator[FrameDraft | None]:
    """Record one frame, also if its compilation fails."""
    recorders = _active()
    # Evaluated once: a log that is switched on during a compile would get an incomplete frame.
    interested = [subscriber for subscriber in subscribers if subscriber.wants_frames()]
    if not recorders and not interested:
        yield None
        return
    draft = FrameDraft(compile_id, function)
    before = _draft.get()
    try:
        _draft.set(draft)
        with ExitStack() as contexts:
            for subscriber in interested:
                contexts.enter_context(subscriber.during(compile_id))
            yield draft
    except KeyboardInterrupt:
        draft.interrupted("compilation")
        raise
    except BaseException as error:
        draft.raised(error)
        raise
    finally:
        _draft.set(before)
        # Also after an exception: a frame that failed is what most readers look for in a record.
        for recorder in recorders:
            recorder.active = None
            draft.hand_in(recorder)
        for subscriber in interested:
            subscriber.receive(draft.frame(), tuple(draft.timings))


range_openers: list[Callable[[str], AbstractContextManager[object]]] = []
"""Open a range of a profiler for a stage: recording/observer.py adds torch.profiler's."""


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time one stage of the frame that is being compiled."""
    with ExitStack() as ranges:
        for opener in range_openers:
            ranges.enter_context(opener(name))
        with _timed(name):
            yield


@contextmanager
def _timed(name: str) -> Iterator[None]:
    draft = _draft.get()
    if draft is None:
        yield
        return
    began = time.perf_counter()
    phase = Phase(draft.compile_id, str(draft.frame_fields["function"]), name, draft.began)
    for recorder in _active():
        recorder.active = phase
    # Stages nest: lowering runs inside of the backend. Sums of times must count only the outer ones.
    inside = draft.stages[-1] if draft.stages else ""
    draft.stages.append(name)
    try:
        yield
    except KeyboardInterrupt:
        draft.interrupted(name)
        raise
    finally:
        draft.stages.pop()
        # A stage is noted when it ends, so those inside of it come before it.
        draft.timings.append(model.Timing(draft.compile_id, name, time.perf_counter() - began, began, inside))
