"""A judgement in a process that is forked for it, which it may kill or never leave.

    judged(lambda: wrong(graph, inputs), seconds=60)      "killed by signal 11", "did not end in time", what it says, ""

In torch: torch/_dynamo/debug_utils.py starts a process for each trial of its minifier. Read next:
nbcompile/tools/diagnose/script_graphs.py
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable

import torch

KILLED, HUNG = "killed by signal", "did not end in time"
MOST_SAID = 4096
"""Bytes of a judgement."""


def judged(judge: Callable[[], str], seconds: float) -> str:
    """Ask a function in a fork of this process: its answer, or the way in which the fork ended; "" where it raises."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        _judge(judge, writer)
    os.close(writer)
    with open(reader, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
        ends, said, hung = time.monotonic() + seconds, b"", False
        while not hung:
            ready, _, _ = select.select([pipe], [], [], max(ends - time.monotonic(), 0.0))
            hung = not ready
            chunk = pipe.read(MOST_SAID) if ready else b""
            if ready and not chunk:
                break
            said += chunk or b""
    if hung:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if hung:
        return HUNG
    return f"{KILLED} {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said.decode()


def is_an_ending(said: str) -> bool:
    """True for what :func:`judged` says of a process, and not what the process said."""
    return said.startswith((KILLED, HUNG))


def _judge(judge: Callable[[], str], writer: int) -> None:
    try:
        os.setsid()
        torch.set_num_threads(1)  # the threads of the first process are not in this one
        os.write(writer, judge().encode()[:MOST_SAID])
    finally:
        os._exit(0)
