"""Evaluation of a predicate in a fork of the process, which may crash or hang.

    call_in_fork(lambda: wrong(graph, inputs), 60)     "killed by signal 11", "did not end in time", its result, ""

The output of the fork, also that of a crash, is discarded: it would be repeated for each trial.

In torch: torch/_dynamo/debug_utils.py starts a process for each trial of its minifier. Read next:
nbcompile/tools/diagnose/script_graphs.py
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable

import torch

KILLED, HUNG, LEFT = "killed by signal", "did not end in time", "left the process with exit code"
MOST_BYTES = 4000
"""Maximum bytes of a result: with the mark, no more than one write to a pipe."""
MARK = b"+"
"""The mark at the end of a complete result."""
POLL_SECONDS = 0.05
"""Interval of the tests whether the fork has ended, in case a child of it still holds the pipe."""
SECONDS = 120.0
"""The default limit of a trial in a notebook."""


def can_fork() -> bool:
    """True if a fork of this process can compute: CUDA allows none."""
    return hasattr(os, "fork") and not torch.cuda.is_initialized()


def call_in_fork(function: Callable[[], str], seconds: float) -> str:
    """Call a function in a fork of this process; return its result, or how the fork ended; "" if the call raises."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12: that there are threads, which the fork does not have
        process = os.fork()
    if not process:
        _run_child(function, writer)
    os.close(writer)
    try:
        text, status = _wait(reader, process, time.monotonic() + seconds)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)  # its children, and the fork itself, if it hangs or the user interrupts
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
    if text.startswith(MARK):
        return text[len(MARK) :].decode(errors="replace")
    if status is None:
        return f"{HUNG} ({seconds:g} seconds)"
    return f"{KILLED} {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"{LEFT} {os.WEXITSTATUS(status)}"


def is_an_ending(text: str) -> bool:
    """Return whether a text describes how a process ended, rather than being its result (:func:`call_in_fork`)."""
    return text.startswith((KILLED, HUNG, LEFT))


def ending(call: Callable[[], object], seconds: float) -> str:
    """The way in which a call ends its process; "" if the call returns, or the process cannot fork."""
    if not can_fork():
        return ""

    def function() -> str:
        call()
        return ""

    return call_in_fork(function, seconds)


def expect_to_return(call: Callable[[], object], seconds: float) -> None:
    """Check that a call in eager mode does not end the process: nothing could be compared with it.

    Raises:
        ValueError: the call ends the process.
    """
    if ended := ending(call, seconds):
        raise ValueError(f"in eager mode, the function {_sentence(ended)}: there is nothing to compare with")


def _sentence(ended: str) -> str:
    """An ending, with "the function" before it."""
    return f"is {ended}" if ended.startswith(KILLED) else ended


def _wait(reader: int, process: int, until: float) -> tuple[bytes, int | None]:
    """The message of the fork, and its status when it has ended; None if it does not end in time."""
    text, pipes = b"", [reader]
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select(pipes, [], [], min(POLL_SECONDS, left))
        if ready:
            chunk = os.read(reader, 1 << 16)
            text += chunk
            # Nothing was read: the other end is closed, and select would return immediately from now on.
            pipes = pipes if chunk else []
            if chunk:
                continue
        try:
            # The fork ends as soon as it has written its result, so waiting for it is safe.
            ended, status = os.waitpid(process, 0 if text else os.WNOHANG)
        except ChildProcessError:  # the program ignores SIGCHLD
            return text, 0
        if ended:
            return text, status
    return text, None


def _run_child(function: Callable[[], str], writer: int) -> None:
    text, own = "", os.getpid()
    try:
        # A session of its own: ``killpg`` then ends also what the fork starts.
        os.setsid()
        _silence()
        torch.set_num_threads(1)  # the threads of the first process are not in this one
        with contextlib.suppress(Exception, SystemExit, KeyboardInterrupt):
            text = function()
        if os.getpid() == own:  # a program that forks reaches this line in each process
            os.write(writer, MARK + text.encode()[:MOST_BYTES])
    finally:
        # Without the handlers of ``atexit`` and without a flush of buffers: both belong to the first process.
        os._exit(0)


def _silence() -> None:
    """Suppress output, stack traces and core dumps of a crash, which is a valid result of a trial."""
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as long as the process
    for descriptor in (1, 2):
        os.dup2(sys.stdout.fileno(), descriptor)
