"""``mode="reduce-overhead"``: a compiled graph is recorded as a CUDA graph, which one driver call replays.

    replayed = ReplayedProgram(program, gpu, facts, log)
    replayed([x, w])      1st call of a size: plain launches     2nd: recorded, and replayed     from then on: replayed

An input with the same address in two calls is static and read in place (a parameter, the output of an earlier graph);
any other input is copied to a static buffer before each replay. A graph is recorded again for other sizes, and if its
outputs are large and still used; small outputs are copied (runtime/gpu_capture.h). Graphs share their memory
(graph_pools.py): before a graph runs, the same is done for outputs of other graphs in memory that it may write. So an
output is never overwritten, and ``torch.compiler.cudagraph_mark_step_begin`` is not needed.

Only one thread at a time searches for a recording and replays it (replay_lock.py).

If a graph cannot be recorded, it is launched as without the mode, and the record gives the reason.

In torch: torch/_inductor/cudagraph_trees.py. Read next: nbcompile/runtime/gpu_capture.h
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.gpu import graph_pools
from nbcompile.gpu.graph_pools import GraphPool
from nbcompile.gpu.random_draws import Draw
from nbcompile.gpu.replay_lock import REPLAY_LOCK
from nbcompile.ir.emitted import CaptureFacts
from nbcompile.runtime import gpu_launcher
from nbcompile.runtime.gpu_launcher import GpuLauncher
from nbcompile.runtime.program import LoadedGraph
from nbcompile.support.process_state import STATE, Lifetime

MAX_GRAPHS = 32
"""Maximum number of recordings of one compiled graph; further sizes are launched."""
MAX_GRAPHS_PER_LAYOUT = 4
"""Maximum number of recordings of one layout, if outputs are still used."""
MAX_LAYOUTS_SEEN_ONCE = 256
"""Maximum number of layouts whose first call is stored."""
MAX_COPIED_BYTES = 1 << 20
"""Maximum number of bytes of outputs that are copied; for larger outputs another graph is recorded."""
NO_LIMIT = (1 << 63) - 1
LAYOUT, ADDRESS, IN_USE, IN_CAPTURE = range(4)
"""Reasons why a recording does not run (gpu_capture.h)."""

Log = Callable[[str], None]


@dataclass(slots=True, weakref_slot=True)
class RecordedGraph:
    """An executable CUDA graph, with its buffers."""

    executable: Any
    pool: GraphPool
    layout: tuple[Any, ...]
    buffers: tuple[torch.Tensor, ...]
    """Buffers of the random tensors."""
    draw: Callable[[], None] | None


@dataclass(frozen=True, slots=True)
class PlainLaunch:
    """A call that is not replayed."""

    program: LoadedGraph
    inputs: list[Any]


@dataclass(frozen=True, slots=True)
class LayoutToRecord:
    """Layout of inputs for which a graph will be recorded."""

    layout: tuple[Any, ...]


@dataclass(slots=True, weakref_slot=True, eq=False)
class ReplayedProgram:
    """A compiled graph that is recorded when it is called again."""

    program: LoadedGraph
    recorded_program: LoadedGraph
    """The recorded form of the program: random tensors are its last arguments."""
    draws: tuple[Draw, ...]
    gpu: GpuLauncher
    device: int
    facts: CaptureFacts
    log: Log
    is_off: bool = False
    graphs: list[RecordedGraph] = field(default_factory=list)
    previous_addresses: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)
    """Addresses of the inputs at the last plain call of each layout."""
    copied_positions: set[int] = field(default_factory=set)
    """Positions of inputs that have had two addresses."""
    noted: set[str] = field(default_factory=set)
    has_drawn: bool = False
    """True once the current replay has drawn its random tensors."""
    _boxed_call: bool = True

    def __post_init__(self) -> None:
        _all.add(self)

    def __call__(self, inputs: list[Any], /) -> Any:
        # A replay bypasses the dispatcher: a mode of the user would not be called.
        if self.is_off or torch_internals.dispatch_mode_count():
            return self.program(inputs)
        result = self._locked(lambda: self._tried(inputs), inputs)
        if type(result) is LayoutToRecord:
            result = self._recorded(inputs, result)
        # Without the lock, since operators of the user may take long.
        if type(result) is PlainLaunch:
            return result.program(result.inputs)
        # Boxed call: the caller gave up its references.
        inputs.clear()
        return result

    def _locked(self, attempt: Callable[[], Any], inputs: list[Any]) -> Any:
        with REPLAY_LOCK.lock:
            # Another thread has disabled recordings, a graph is being recorded, or a finalizer runs during a replay.
            if self.is_off or REPLAY_LOCK.is_held:
                return PlainLaunch(self.program, inputs)
            REPLAY_LOCK.is_held = True
            try:
                return attempt()
            finally:
                REPLAY_LOCK.is_held = False

    def _tried(self, inputs: list[Any]) -> Any:
        """Outputs of a replay, or a ``PlainLaunch`` or ``LayoutToRecord`` to process instead."""
        addressed, in_use = [], []
        most = 0 if REPLAY_LOCK.has_several_threads() else MAX_COPIED_BYTES
        # Newest first. A recording that does not run has written nothing, so the next one can be tried.
        for graph in self.graphs:
            result = self._run(graph, inputs, most)
            if type(result) is not int:
                return result
            # The user records a graph: it can include launches, but not another graph.
            if result == IN_CAPTURE:
                return PlainLaunch(self.program, inputs)
            # By reason, for the slow path: the recording has other addresses, or its outputs are still used and too
            # large to be copied.
            addressed += [graph] if result == ADDRESS else []
            in_use += [graph] if result == IN_USE else []
        return self._without_recording(inputs, addressed, in_use)

    def positional(self, *inputs: Any) -> Any:
        """Run with separate arguments."""
        return self(list(inputs))

    def release(self) -> None:
        """Free the memory of all recordings; outputs that are still used keep theirs."""
        # Another thread may iterate over the list. The lock is not taken here, as that thread may wait for this one's
        # memory.
        self.graphs = []
        self.previous_addresses = {}

    def _run(self, graph: RecordedGraph, inputs: list[Any], most: int) -> Any:
        """Outputs of a replay, the number of the reason why it did not run, or a plain launch after a failure."""
        # Random tensors are filled first, by the function that the recording calls (graph.draw).
        given = [*inputs, *graph.buffers] if graph.buffers else inputs
        self.has_drawn = False
        try:
            return graph.executable.run(given, most, graph.draw)
        except torch.OutOfMemoryError as error:
            problem: Exception = error
        except gpu_launcher.errors() as error:
            if getattr(error, gpu_launcher.RESULT, None) in gpu_launcher.LOST:
                raise
            problem = error
        self._stop(f"skipping cudagraphs due to a replay that failed ({_first_line(problem)})")
        # Memory for moved outputs is allocated before the draw: a failed allocation has drawn nothing.
        if graph.draw is not None and not self.has_drawn:
            graph.draw()
        return PlainLaunch(self.recorded_program, list(given))

    def _without_recording(self, inputs: list[Any], addressed: list[RecordedGraph], in_use: list[RecordedGraph]) -> Any:
        #     in use, and 4 recordings of this layout    replay the oldest of them, copy its outputs
        #     32 recordings in all                       launch
        #     addresses differ                           update the copied inputs, record again
        #     layout seen for the first time             launch, and store the addresses
        #     else                                       record, and replay
        # Recording costs more than a launch, so a layout that occurs once is never recorded.
        layout = tuple(map(_layout_of, inputs))
        same_layout = [graph for graph in self.graphs if graph.layout == layout]
        if in_use and len(same_layout) >= MAX_GRAPHS_PER_LAYOUT:
            return self._replayed(in_use[-1], inputs)
        if len(self.graphs) >= MAX_GRAPHS:
            self._note_once(f"skipping cudagraphs for further sizes: {MAX_GRAPHS} graphs are recorded")
            return PlainLaunch(self.program, inputs)
        if addressed and not in_use:
            self._update_moved_inputs(addressed[-1], inputs, len(same_layout))
        elif not same_layout and layout not in self.previous_addresses:
            self._store_addresses(inputs, layout)
            return PlainLaunch(self.program, inputs)
        return PlainLaunch(self.program, inputs) if self.is_off else LayoutToRecord(layout)

    def _replayed(self, graph: RecordedGraph, inputs: list[Any]) -> Any:
        # Outputs are not moved if several threads use recordings.
        result = self._run(graph, inputs, 0 if REPLAY_LOCK.has_several_threads() else NO_LIMIT)
        return PlainLaunch(self.program, inputs) if type(result) is int else result

    def _recorded(self, inputs: list[Any], to_record: LayoutToRecord) -> Any:
        """Record and replay a graph; a plain launch if it cannot be recorded."""
        with REPLAY_LOCK.recording() as allowed:
            graph = self._record(inputs, to_record.layout) if allowed else None
        if graph is None:
            return PlainLaunch(self.program, inputs)
        return self._locked(lambda: self._replayed(graph, inputs), inputs)

    def _store_addresses(self, inputs: list[Any], layout: tuple[Any, ...]) -> None:
        # Layouts that never repeat would fill memory; each layout that is removed costs one plain call.
        if len(self.previous_addresses) >= MAX_LAYOUTS_SEEN_ONCE:
            self.previous_addresses.clear()
        self.previous_addresses[layout] = _addresses(inputs)

    def _update_moved_inputs(self, graph: RecordedGraph, inputs: list[Any], same_layout: int) -> None:
        """Handle changed addresses: each output of another recording gets a recording, other inputs are copied."""
        # Outputs of recordings have few addresses (a backward graph reads those of the forward graph's recordings): one
        # recording per address is better than a copy at each call. A tensor that the caller allocates can have any
        # address, so it is copied.
        moved = graph.executable.changed(inputs)
        is_output = self.gpu.module.is_output
        if same_layout >= MAX_GRAPHS_PER_LAYOUT or not all(is_output(inputs[at]) for at in moved):
            self.copied_positions.update(moved)
            self.graphs = [other for other in self.graphs if other is not graph]
        self.previous_addresses[graph.layout] = _addresses(inputs)

    def _record(self, inputs: list[Any], layout: tuple[Any, ...]) -> RecordedGraph | None:
        """A new recording; None if it fails, with the reason in the record."""
        #     plain call    x at 0x1000    w at 0x8000
        #     now           x at 0x2000    w at 0x8000
        # Then x is copied before each replay, and w is read in place.
        previous = self.previous_addresses.get(layout) or _addresses(inputs)
        now = _addresses(inputs)
        is_output = self.gpu.module.is_output
        moved = [at for at in range(len(inputs)) if now[at] != previous[at] and not is_output(inputs[at])]
        copied = sorted({*moved, *self.copied_positions} & {at for at in range(len(inputs)) if now[at]})
        # The graph would write to the copy, and the caller's tensor would not change.
        written = [(at, stack) for at, stack in self.facts.written if at in copied]
        if written:
            stack = next((stack for _, stack in written if stack), "")
            found = f". Found from : \n {stack}" if stack else ""
            self._stop(f"skipping cudagraphs due to mutated inputs ({len(written)} instances){found}")
            return None
        try:
            graph = self._captured(inputs, layout, set(copied))
        except Exception as error:
            # After these errors of the driver a plain launch would fail, too.
            if getattr(error, gpu_launcher.RESULT, None) in gpu_launcher.LOST:
                raise
            self._stop(f"skipping cudagraphs due to a capture that failed ({_first_line(error)})")
            return None
        self.copied_positions.update(copied)
        self.graphs.insert(0, graph)
        static = sum(map(bool, now)) - len(copied)
        self.log(f"recorded a CUDA graph: {static} static inputs, {len(copied)} copied{graph.pool.neighbours()}")
        return graph

    def _captured(self, inputs: list[Any], layout: tuple[Any, ...], copied: set[int]) -> RecordedGraph:
        module = self.gpu.module
        # Inputs of the recording: a static buffer if copied, otherwise the caller's tensor.
        static_inputs = [_buffer_for(value) if at in copied else value for at, value in enumerate(inputs)]
        buffers = tuple(row.buffer() for draw in self.draws for row in draw.results)
        # A private pool, since a replay writes to the recorded addresses: only graphs may allocate there.
        pool = graph_pools.pool_for(module, self.device)
        with _on_error(pool.drop):
            with pool.allocating():
                module.begin_capture(pool.memory)
                try:
                    result = self.recorded_program([*static_inputs, *buffers])
                except BaseException:
                    # Until then, torch's current stream is the one that records.
                    module.end_capture(False)
                    raise
                executable = module.end_capture(True)
            given, static = [*inputs, *buffers], [*static_inputs, *buffers]
            recording = module.make_recording(pool.memory, executable, given, static, len(inputs), result)
        graph = RecordedGraph(recording, pool, layout, buffers, self._drawing(buffers) if buffers else None)
        # Not at exit, when torch's allocator may be destroyed.
        weakref.finalize(graph, pool.drop).atexit = False
        return graph

    def _drawing(self, buffers: Sequence[torch.Tensor]) -> Callable[[], None]:
        def draw() -> None:
            remaining = iter(buffers)
            for one in self.draws:
                one.fill(tuple(itertools.islice(remaining, len(one.results))))
            self.has_drawn = True

        # The function runs at each replay, and is not compiled.
        torch_internals.hide_from_hook(draw.__code__)
        return draw

    def _stop(self, reason: str) -> None:
        self.is_off = True
        self.release()
        self.log(reason)

    def _note_once(self, reason: str) -> None:
        if reason not in self.noted:
            self.noted.add(reason)
            self.log(reason)


_all: weakref.WeakSet[ReplayedProgram] = STATE.add("gpu.cuda_graphs._all", weakref.WeakSet(), Lifetime.PROCESS)
"""Programs that hold memory, which is freed when an allocation fails."""


def _release_all() -> None:
    for program in list(_all):
        program.release()


gpu_launcher.memory_holders.append(_release_all)


@contextlib.contextmanager
def _on_error(undo: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        undo()
        raise


def _layout_of(value: Any) -> Any:
    # A number is an argument of the recorded launches, so another number means another layout.
    return (value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else value


def _addresses(inputs: Sequence[Any]) -> list[int]:
    """Address of each tensor; 0 for an empty tensor or another value."""
    return [value.data_ptr() if isinstance(value, torch.Tensor) else 0 for value in inputs]


def _buffer_for(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
