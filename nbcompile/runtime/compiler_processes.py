"""Processes of the C++ compiler: several at once, each ended when it takes too long or the program exits.

    run_together([["g++", "a.cpp", ...], ["g++", "b.cpp", ...]])   ->   what each of them printed

In torch: torch/_inductor/cpp_builder.py (run_compile_cmd). Read next: nbcompile/runtime/toolchain.py
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from nbcompile.support.process_state import STATE, Lifetime

PATIENCE = "NBCOMPILE_COMPILER_TIMEOUT"
"""Environment variable for the timeout of a compiler."""


class BuildError(Exception):
    """The compiler rejected source text that we generated; the message is its own."""


def run(command: Sequence[str], source: str, timeout: float | None = None) -> tuple[int, str]:
    """Run a compiler on source text; return its exit status and output."""
    (result,) = run_together([command], source, timeout)
    return result


def run_together(
    commands: Sequence[Sequence[str]], source: str = "", timeout: float | None = None
) -> list[tuple[int, str]]:
    """Run compilers concurrently (on source text: one); their process groups are killed on an exception.

    A compiler is a tree of processes (driver, front end, assembler, linker).
    Ctrl-C must not leave any of them running.
    """
    processes: list[subprocess.Popen[str]] = []
    try:
        with _as_file(source) as text:
            for command in commands:
                processes.append(_started(command, text))  # noqa: PERF401 - if one cannot start, those before it stop
        builds.run_concurrent_task()
        until = time.monotonic() + (patience() if timeout is None else timeout)
        with builds.around():
            outputs = [each.communicate(timeout=max(0.0, until - time.monotonic()))[0] for each in processes]
    except subprocess.TimeoutExpired as error:
        seconds = patience() if timeout is None else timeout
        raise BuildError(f"{error.cmd[0]} was stopped after {seconds:g} s (${PATIENCE})") from None
    finally:
        for process in processes:
            if process.poll() is None:
                _kill(process)
            _running.discard(process)
    return [(each.returncode, output) for each, output in zip(processes, outputs, strict=True)]


@contextlib.contextmanager
def _as_file(source: str) -> Iterator[TextIO]:
    """Temporary file with a compiler's input: with a pipe, the compiler could wait for this process."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", prefix="nbcompile-") as text:
        text.write(source)
        text.seek(0)
        yield text


def _started(command: Sequence[str], source: TextIO) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",  # a compiler's messages may be in any encoding
        # A process group of its own: it can be killed as a whole, and Ctrl-C in a terminal does not reach it.
        start_new_session=True,
    )
    _running.add(process)
    return process


class _Builds(threading.local):
    """Work that a thread does while it waits for a compiler."""

    around: Callable[[], contextlib.AbstractContextManager[object]] = staticmethod(contextlib.nullcontext)
    concurrent_task: Callable[[], object] | None = None
    """Functions to call once, when a compiler is known to work."""

    def run_concurrent_task(self) -> None:
        task, self.concurrent_task = self.concurrent_task, None
        if task is not None:
            task()

    @contextlib.contextmanager
    def doing(self, task: Callable[[], object]) -> Iterator[None]:
        """The task is done by the end of the block: while a compiler works inside of it, if one does.

        What the task raises is raised at the end of the block: it is no fault of what is built there.
        """
        earlier, left = self.concurrent_task, [task]
        failures: list[Exception] = []

        def both() -> None:
            self.concurrent_task = earlier  # while the task waits for its own compiler
            try:
                left.pop()()
            except Exception as error:  # noqa: BLE001 - all of them are listed
                failures.append(error)
            self.run_concurrent_task()

        self.concurrent_task = both
        try:
            yield
        finally:
            if self.concurrent_task is both:
                self.concurrent_task = earlier
        if failures:
            raise failures[0]
        if left:
            task()


builds = _Builds()


_running: set[subprocess.Popen[str]] = STATE.add("runtime.compiler_processes._running", set(), Lifetime.TASK)


@atexit.register
def _stop() -> None:
    """A compiler that another thread waits for does not outlive Python."""
    for process in list(_running):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def patience() -> float:
    """Timeout of a compiler, in seconds."""
    try:
        return float(os.environ.get(PATIENCE, ""))
    except ValueError:
        return 300.0


def _kill(process: subprocess.Popen[str]) -> None:
    with_group = os.killpg if hasattr(os, "killpg") else os.kill
    with_group(process.pid, signal.SIGKILL)
    process.wait()
    ends = time.monotonic() + LAST_WRITE
    with contextlib.suppress(OSError):  # the group has no process left
        while time.monotonic() < ends:
            # Signal 0 is not delivered; it fails as soon as the group has no process left.
            with_group(process.pid, 0)
            time.sleep(0.001)


LAST_WRITE = 0.2
"""Seconds at most for what a killed compiler had started: it may be creating the very file that is removed next."""
