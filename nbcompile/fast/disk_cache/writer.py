"""Entries are written when the call that compiled them is over: its result does not wait for the disk.

    enqueue(key, write)    what is kept is data by now; making text of it and writing it is left to a thread
    flush(key)             wait for the entries of one key; flush() for all
    with postponed():      a cell runs and its output is drawn: the thread waits for the end of this, too

The thread begins when no call of a compiled function runs any more, or after ``MAX_DELAY``: it would take the
interpreter's lock from the very call that it is to spare. It ends when nothing is left to write. Who needs an entry
waits for it: a look-up of the same key, ``reset``, a fork (the child has no such thread), the end of the interpreter.
Only a process that is killed loses what it had not begun to write; an entry on the disk is whole whatever happens.

In torch: nothing; torch/_inductor/codecache.py writes inside of the call. Read next:
nbcompile/fast/disk_cache/storage.py
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nbcompile.dispatch import lifetimes
from nbcompile.fast.disk_cache import storage
from nbcompile.support.process_state import STATE, Lifetime

MAX_DELAY = 5.0
"""Seconds that a call of a compiled function may continue before entries are written concurrently."""
POLL_INTERVAL = 0.01
"""Seconds between two looks at whether such a call is over."""
TIMEOUT = 10.0
"""Seconds that a fork, or the end of the interpreter, waits for a disk that does not answer."""
ROUNDS = 6
"""Number of such waits while the thread still computes: the machine is busy, and not the disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry that waits to be written."""

    key: str
    write: Callable[[], None]


class _Queue:
    """The entries that wait, in order, and the thread that writes them; all of it under one lock."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pending: deque[Entry] = deque()
        """The first is the one that is being written."""
        self.worker: threading.Thread | None = None
        self.waiters = 0
        """Number of threads that wait for entries right now."""
        self.postponements = 0
        """Number of blocks under :func:`postponed` that run."""
        self.has_finalizer = False


_queue = STATE.add("fast.disk_cache.writer._queue", _Queue(), Lifetime.TASK)


def enqueue(key: str, write: Callable[[], None]) -> None:
    """Queue an entry for the worker thread; what ``write`` closes over must not change any more."""
    # All under one lock, which is never held while an entry is written.
    with _queue.changed:
        _queue.pending.append(Entry(key, write))
        _register_at_exit()
        has_worker = _ensure_worker()
    if not has_worker:
        _write_all()


def flush(key: str | None = None, timeout: float | None = None) -> bool:
    """Wait until the entries of a key are written, or cannot be; without a key, all. Whether they are."""
    queue = _queue
    if not _is_pending(queue, key):
        return True
    # The worker would wait for itself.
    if queue.worker is threading.current_thread():
        return False  # its write led to a warning, and a handler of warnings reads the cache
    with queue.changed:
        if _ensure_worker():
            queue.waiters += 1
            queue.changed.notify_all()
            # Another thread waits: the worker must write now, and not wait for calls to end.
            try:
                return queue.changed.wait_for(lambda: not _is_pending(queue, key), timeout)
            finally:
                queue.waiters -= 1
    _write_all()
    return True


@contextmanager
def postponed() -> Iterator[None]:
    """Inside, entries wait as they do in a call: for ``MAX_DELAY`` at most, and not if another thread needs one."""
    queue = _queue
    counted = False
    try:  # Ctrl-C may come after any call: what was counted is uncounted
        with queue.changed:
            queue.postponements, counted = queue.postponements + 1, True
        yield
    finally:
        if counted and queue is _queue:  # a forked child has a new one
            with queue.changed:
                queue.postponements -= 1
                queue.changed.notify_all()


def _is_pending(queue: _Queue, key: str | None) -> bool:
    return any(key in (None, each.key) for each in tuple(queue.pending))


def _ensure_worker() -> bool:
    """Start the worker thread unless it runs; False where none can start any more: the interpreter is ending."""
    if _queue.worker is not None and _queue.worker.is_alive():
        return True
    # A daemon: a disk that does not answer must not keep the process alive; ``_finish`` waits a limited time.
    _queue.worker = threading.Thread(target=_worker, args=(_queue,), name="nbcompile store", daemon=True)
    try:
        _queue.worker.start()
    except RuntimeError:
        _queue.worker = None
        return False
    return True


def _worker(queue: _Queue) -> None:
    """The thread: one entry after another, until none is left."""
    while True:
        _wait_for_calls(queue)
        with queue.changed:
            if not queue.pending:
                queue.worker = None
                return
            # It stays first while it is written, so that a flush in another thread sees it.
            entry = queue.pending[0]
        _write(entry)
        with queue.changed:
            queue.pending.popleft()
            queue.changed.notify_all()


def _wait_for_calls(queue: _Queue) -> None:
    # Writing needs the GIL and a core, which a running model wants too.
    ends = time.monotonic() + MAX_DELAY
    with queue.changed:
        while not queue.waiters and _is_busy(queue) and time.monotonic() < ends:
            queue.changed.wait(POLL_INTERVAL)


def _is_busy(queue: _Queue) -> bool:
    return bool(queue.postponements) or not lifetimes.is_idle()


def _write(entry: Entry) -> None:
    try:
        entry.write()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a filter makes a warning an error; the other entries are written
        failure = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(failure))


def _write_all() -> None:
    """Write in the calling thread."""
    while _queue.pending:
        _write(_queue.pending[0])
        _queue.pending.popleft()


def _register_at_exit() -> None:
    """Register as the first exit handler: it must run before a temporary store's folder is removed."""
    # Callbacks run in reverse order of registration: registering anew makes this one the first.
    atexit.unregister(_finish)
    atexit.register(_finish)
    if multiprocessing.process.parent_process() is not None and not _queue.has_finalizer:
        multiprocessing.util.Finalize(None, _finish, exitpriority=10)  # such a process leaves atexit out
        _queue.has_finalizer = True


def _finish() -> None:
    """Wait for all entries, unless the disk does not answer."""
    # As long as the thread gets on, the machine is only busy.
    for _round in range(ROUNDS):
        before = _progress()
        if flush(timeout=TIMEOUT):
            return
        if _progress() == before:
            break
    storage.warn(
        "late", f"the disk was busy for {TIMEOUT:g} s: what was compiled last is not stored in the compile cache"
    )


def _progress() -> tuple[object, ...]:
    """Position of the thread: number of entries that wait, its instruction, its processor time (on Linux)."""
    worker = _queue.worker
    if worker is None:
        return ()
    frame = sys._current_frames().get(worker.ident or 0)
    try:
        used = Path(f"/proc/self/task/{worker.native_id}/schedstat").read_text(encoding="ascii").split()[:1]
    except OSError:
        used = []
    return len(_queue.pending), frame and frame.f_code, frame and frame.f_lasti, used


def _reset_after_fork() -> None:
    """Forget the queue in a forked child, which has no thread: the parent writes what still waits."""
    global _queue  # noqa: PLW0603 - the lock of the old one may be held for ever
    _queue = STATE.add("fast.disk_cache.writer._queue", _Queue(), Lifetime.TASK)


if hasattr(os, "register_at_fork"):
    # Before a fork everything is written: the thread does not exist in the child.
    os.register_at_fork(before=_finish, after_in_child=_reset_after_fork)
