"""Run a command in a separate process that may hang, fork, print without end, or crash.

    run([sys.executable, "train.py"], seconds=60)     ProcessResult(code=0, output="...", errors="")

When the command ends, or its time limit does, its whole process group is killed: children that it forked would continue
to run, and keep its output open. Memory is bounded: only the start of the output and the end of the errors are stored.

In torch: subprocess_run in torch/_inductor/compiler_bisector.py. Read next: nbcompile/tools/diagnose/script.py
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

HUNG = -1000
"""The code of a command that did not end in time."""
MOST_OUTPUT, MOST_ERRORS = 1 << 20, 1 << 16
"""Maximum number of bytes that are stored of a stream."""
CHUNK = 1 << 16
GRACE_SECONDS = 5.0
"""Time for the last output to arrive, where a process left the group and holds the pipe."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The end of a command."""

    code: int
    """Exit code; the negative number of the signal; ``HUNG``."""
    output: str
    """The start of standard output, and size and digest of the rest, so that outputs can be compared."""
    errors: str
    """The end of standard error."""


def run(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    given: bytes = b"",
    *,
    together: bool = False,
) -> ProcessResult:
    """Run a command.

    Args:
        command: program and arguments.
        seconds: time limit.
        environment: the environment variables; None: those of this process.
        given: its standard input.
        together: output and errors go into one pipe, in order; ``errors`` is the end of it.
    """
    with tempfile.TemporaryFile() as file:
        # A file and no pipe: a pipe is full after 64 KiB, and its writer blocks until the program reads, or forever.
        file.write(given)
        file.seek(0)
        process = subprocess.Popen(
            command, stdin=file, stdout=subprocess.PIPE, env=environment, start_new_session=True,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
        )  # fmt: skip
    # Read while it runs: a process that prints blocks as soon as its pipe is full.
    readers = [_Reader(pipe) for pipe in (process.stdout, process.stderr) if pipe]
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = HUNG
    finally:
        end_group(process)
        for reader in readers:
            reader.join(GRACE_SECONDS)
    return ProcessResult(code, readers[0].beginning(), readers[-1].end())


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a separate session, and all processes that it forked."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def leave_if_forked(first: int, code: int = 0) -> None:
    """Exit if this process is a fork of the first one: a program that forks returns in each process."""
    if os.getpid() != first:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Reader(threading.Thread):
    """Thread that reads a pipe to its end, and stores its start and its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.pipe, self.size, self.digest = pipe, 0, hashlib.sha256()
        self.first, self.last = bytearray(), bytearray()
        self.start()

    def run(self) -> None:
        with contextlib.suppress(ValueError, OSError), self.pipe:
            while chunk := os.read(self.pipe.fileno(), CHUNK):
                self.size += len(chunk)
                self.digest.update(chunk)
                # The digest is of everything, so that two outputs are compared beyond what is kept.
                self.first += chunk[: MOST_OUTPUT - len(self.first)]
                self.last += chunk
                del self.last[:-MOST_ERRORS]

    def beginning(self) -> str:
        text = self.first.decode(errors="replace")
        beyond = self.size - len(self.first)
        return f"{text}\n... {beyond} more bytes, in all {self.digest.hexdigest()}" if beyond else text

    def end(self) -> str:
        return self.last.decode(errors="replace")
