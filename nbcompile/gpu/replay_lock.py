"""The lock of replays: CUDA graphs share memory, so they are replayed by one thread after the other.

    with REPLAY_LOCK.lock: ...                search for a recording, draw its random tensors, copy its inputs, replay
    with REPLAY_LOCK.recording() as allowed:  record a graph; what other threads call meanwhile is launched
    REPLAY_LOCK.has_several_threads()         whether two threads call recorded graphs: then nothing is moved

A replay is short and runs no code of the user's, so other threads wait for it. A recording runs operators of the user's
in Python, which may wait for other threads: so no thread waits for a recording.

While only one thread calls recorded graphs, what a replay would overwrite may be moved to other memory. Another thread
may have read the old address already, and use it after the replay. So with two threads a graph whose outputs are still
used is recorded once more, or launched.

In torch: torch/_inductor/cudagraph_trees.py, which has trees for each thread. Read next: nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nbcompile import torch_internals
from nbcompile.support.process_state import STATE, Lifetime


@dataclass(slots=True)
class ReplayLock:
    """The lock of this process, whether a graph is recorded or replayed, and the threads that called."""

    # Reentrant, for a finalizer that Python runs during a replay: it then reads that ``is_held`` is true.
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_held: bool = False
    """True while a graph is recorded, or while this thread replays one."""
    _callers: dict[int, weakref.ref[threading.Thread]] = field(default_factory=dict)
    _last: int = 0
    _several: bool = False

    @contextmanager
    def recording(self) -> Iterator[bool]:
        """Record inside, if the value is true."""
        with self.lock:
            allowed = not self.is_held
            self.is_held = True
        try:
            yield allowed
        finally:
            if allowed:
                self.is_held = False

    def has_several_threads(self) -> bool:
        """Note that this thread calls a recorded graph; return whether another one that still runs has."""
        own = threading.get_ident()
        # The usual case, without the dict: the thread that called last calls again.
        if own == self._last and not self._several:
            return False
        # A thread of torch runs a backward pass, and the requesting thread waits for it.
        if not torch_internals.in_backward_pass():
            self._callers[own] = weakref.ref(threading.current_thread())
            self._last = own
        for number, known in list(self._callers.items()):
            thread = known()
            if thread is None or not thread.is_alive():
                self._callers.pop(number, None)
        self._several = len(self._callers) > 1
        return self._several


REPLAY_LOCK: ReplayLock = STATE.add("gpu.replay_lock.REPLAY_LOCK", ReplayLock(), Lifetime.PROCESS)
