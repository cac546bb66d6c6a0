"""Machine code of a graph's kernels: from the kernel store, or compiled by worker processes side by side.

    obtain([Request(kernel, "sm_90", aligned=True), ...]) -> [Cubin(Image(entry="kernel0", threads=128, ...), ptx), ...]

An entry's key is the kernel's text and types, the chip, whether pointers are aligned, Triton's version and its settings
(triton_settings.py). Only the workers import Triton, and only if an entry is missing.

In torch: torch/_inductor/async_compile.py. Read next: nbcompile/gpu/cubin_worker.py
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import importlib.metadata
import json
import operator
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbcompile.codegen.machine_model import MOST_WARPS
from nbcompile.gpu import elf, triton_settings
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.runtime import store
from nbcompile.runtime.gpu_launcher import Image
from nbcompile.support import threads
from nbcompile.support.process_state import STATE, Lifetime

WORKER = Path(__file__).with_name("cubin_worker.py")
MOST_WORKERS = 16
LARGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"
"""Large pages for the memory of workers and of ``ptxas``, whose page faults are a quarter of its time."""


class CannotCompile(RuntimeError):
    """Reason why some kernels have no machine code."""

    def __init__(self, reasons: dict[str, str]) -> None:
        """Take the reasons, by name of the kernel."""
        super().__init__("; ".join(dict.fromkeys(reasons.values())))
        self.reasons = reasons


class NoTools(RuntimeError):
    """Reason why no kernel has machine code: Triton, or a tool that comes with it, is missing."""


@dataclass(frozen=True, slots=True)
class Request:
    """One kernel to compile."""

    kernel: EmittedKernel
    chip: str
    """Instruction set: ``sm_90``."""
    aligned: bool = True
    """True if all pointers are multiples of 16."""

    @property
    def source(self) -> str:
        """A module that has only this kernel."""
        return f"{self.kernel.header}\n\n{self.own_source}"

    @property
    def own_source(self) -> str:
        """The kernel's own text."""
        return (not self.aligned and self.kernel.unaligned_source) or self.kernel.source

    @property
    def first_line(self) -> int:
        """Line of that module at which the kernel's own text begins, counted from 1."""
        return self.kernel.header.count("\n") + 3

    @property
    def signature(self) -> dict[str, str]:
        """The argument types in Triton's notation."""
        pointers = self.kernel.parameters or tuple(f"p{at}" for at in range(len(self.kernel.arguments)))
        return dict(zip((*pointers, *self.kernel.sizes), self.kernel.types, strict=True))

    @property
    def key(self) -> str:
        """Key of the entry."""
        kernel = self.kernel
        types = " ".join(kernel.types)
        return store.key_of(
            "cubin 2", triton_key(), self.chip, str(self.aligned), str(kernel.warps), str(kernel.stages),
            kernel.function, types, self.source,
        )  # fmt: skip

    def message(self, warps: int) -> dict[str, Any]:
        """Message to a worker: compile with so many warps."""
        # Without debug Triton drops assertions, and with it the checks of arithmetic overflow come
        # along, which are switched off.
        checks = "device_assert" in self.kernel.source
        options = {
            "enable_fp_fusion": True,
            # Else functions of libdevice take subnormal numbers for 0: torch's own kernels do not.
            "enable_reflect_ftz": False,
            "debug": checks,
            "sanitize_overflow": False,
            "num_warps": warps,
            "num_stages": self.kernel.stages,
        }
        return {
            "key": self.key, "header": self.kernel.header, "source": self.own_source, "name": self.kernel.function,
            "signature": self.signature, "capability": int(self.chip.removeprefix("sm_")),
            "aligned": self.aligned, "options": options,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code, the metadata of its launch, and PTX for readers and the simulator."""

    image: Image
    ptx: str

    @property
    def machine_code(self) -> MachineCode:
        """The code with its figures."""
        image = self.image
        return elf.machine_code(self.ptx, image.code, image.entry, image.threads, image.shared)


@functools.cache
def triton_version() -> str:
    """Version of Triton, without importing it; "" where it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


def triton_key() -> str:
    """Triton's version and settings: all that machine code depends on but the kernel."""
    version, settings = triton_version(), triton_settings.settings()
    return f"{version} {settings!r}" if settings else version


def obtain(requests: Sequence[Request]) -> list[Cubin]:
    """The machine code of each kernel; those that are not in the store are compiled side by side.

    Raises:
        CannotCompile: some could not be.
        NoTools: none can be, here.
    """
    # By key, so that of two equal requests one is compiled.
    keys = [request.key for request in requests]
    by_key = dict(zip(keys, requests, strict=True))
    found = {key: None if triton_settings.always_compile() else fetch(key) for key in by_key}
    missing = {key: request for key, request in by_key.items() if found[key] is None}
    reasons: dict[str, str] = {}
    if missing:
        if not triton_version():
            raise NoTools("Triton is not installed (pip install nbcompile[cuda])")
        for key, compiled in zip(missing, _workers.compile(list(missing.values())), strict=True):
            if isinstance(compiled, NoTools):
                raise compiled
            if isinstance(compiled, str):
                # All kernels are compiled before an error is raised, so that one error has the reasons of all.
                reasons[missing[key].kernel.name] = compiled
            else:
                found[key] = compiled
    if reasons:
        raise CannotCompile(reasons)
    return [cubin for key in keys if (cubin := found[key]) is not None]


loaded: dict[bytes, Cubin] = STATE.add("gpu.cubins.loaded", {}, Lifetime.PROCESS)
"""Machine code that this process has read: the stand-in driver looks up what it is given to run."""


def fetch(key: str) -> Cubin | None:
    """Machine code from the store; None if the store has none."""
    path = store.fetch(key, ".cubin")
    return None if path is None else _parse(path.read_bytes())


def _parse(content: bytes) -> Cubin:
    #     {"entry": ..., "ptx_bytes": n} \n | n bytes of PTX | machine code
    header, _, rest = content.partition(b"\n")
    facts = json.loads(header)
    code = rest[facts["ptx_bytes"] :]
    image = Image(code, facts["entry"], facts["threads"], facts["shared"], facts["parameters"], facts.get("scratch", 0))
    cubin = Cubin(image, rest[: facts["ptx_bytes"]].decode())
    loaded[code] = cubin
    return cubin


def keep(key: str, ptx: str, image: Image) -> Cubin:
    """Put machine code into the store."""
    text = ptx.encode()
    facts = {
        "entry": image.entry, "threads": image.threads, "shared": image.shared, "parameters": image.parameters,
        "scratch": image.scratch, "ptx_bytes": len(text),
    }  # fmt: skip
    content = json.dumps(facts).encode() + b"\n" + text + image.code
    store.add(key, ".cubin", lambda draft: _write(draft, content))
    return _parse(content)


def _of_worker(key: str, answer: dict[str, Any]) -> Cubin:
    code, entry = base64.b64decode(answer["cubin"]), answer["entry"]
    image = Image(code, entry, answer["threads"], answer["shared"], elf.parameters(code, entry), answer["scratch"])
    return keep(key, answer["ptx"], image)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


class _Server:
    """The process that has imported Triton; all workers are forks of it."""

    def __init__(self) -> None:
        #     this process --- control ---> server with Triton: forks for each message
        #           |
        #           +------ a socket of its own ------> worker, the fork: requests in, answers out
        # A fork has the server's imports; a new process would import them again.
        self.control, theirs = socket.socketpair()
        self.settings = triton_settings.settings()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"GLIBC_TUNABLES": LARGE_PAGES, **triton_settings.worker_environment()},
            )

    def connect(self) -> socket.socket:
        """A connection to a new worker.

        Raises:
            OSError: the process has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # A message needs a byte of content, for the descriptor to come with.
            socket.send_fds(self.control, [b"f"], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End it; workers end when their connections are closed."""
        self.control.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class _Worker:
    """One process, used by one thread."""

    def __init__(self, connection: socket.socket, settings: tuple[tuple[str, str], ...]) -> None:
        self.connection = connection
        self.settings = settings
        self.lines = connection.makefile("rw", encoding="utf-8")

    def compile(self, request: Request) -> Cubin | str | NoTools:
        """The machine code, or the reason why there is none; or why no kernel has any."""
        warps = request.kernel.warps
        found: list[tuple[int, dict[str, Any]]] = []
        while True:
            answer = self._response(request.message(warps))
            if isinstance(answer, str):
                return answer
            if "missing" in answer:
                return NoTools(answer["missing"])
            if "error" in answer:
                return f"Triton cannot compile it for {request.chip}: {answer['error']}"
            # While registers spill, twice as many warps: each then has fewer elements. The best one is kept.
            found.append((elf.spilled_bytes(base64.b64decode(answer["cubin"]), answer["entry"]), answer))
            if not found[-1][0] or warps >= MOST_WARPS:
                return _of_worker(request.key, min(found, key=operator.itemgetter(0))[1])
            warps *= 2  # of the same elements, each of more threads holds fewer

    def _response(self, message: dict[str, Any]) -> dict[str, Any] | str:
        line = ""
        with contextlib.suppress(OSError):
            self.lines.write(json.dumps(message) + "\n")
            self.lines.flush()
            line = self.lines.readline()
        if not line:
            return "the process that compiles for a GPU ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def is_usable(self) -> bool:
        """Return whether it waits for a request: one that has ended has closed the connection."""
        # A worker only replies to requests, so readable data means the end of the connection.
        return self.settings == triton_settings.settings() and not select.select([self.connection], [], [], 0)[0]

    def close(self) -> None:
        """Close the connection: the process ends."""
        with contextlib.suppress(OSError):
            self.lines.close()
        self.connection.close()


class _Workers:
    """The processes, started when there is work for them, and kept until this process ends."""

    def __init__(self) -> None:
        self.server: _Server | None = None
        self.idle: list[_Worker] = []
        self.lock = threading.Lock()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._drop_connections)

    def compile(self, requests: Sequence[Request]) -> list[Cubin | str | NoTools]:
        """Compile each; several at once."""
        count = min(len(requests), MOST_WORKERS, len(os.sched_getaffinity(0)))
        if count == 1:
            return [self._one(request) for request in requests]
        # Threads that wait for other processes: the interpreter's lock is free meanwhile.
        return threads.map_in("nbcompile cubins", count, self._one, requests)

    def start(self) -> None:
        """Let a process import Triton, if there is none."""
        with self.lock:
            # Triton reads some of its settings when it is imported.
            if self.server is not None and self.server.settings != triton_settings.settings():
                self.server.close()
                self.server = None
            if self.server is None or self.server.process.poll() is not None:
                self.server = _Server()

    def _one(self, request: Request) -> Cubin | str | NoTools:
        with self.lock:
            worker = self.idle.pop() if self.idle else None
        if worker is not None and not worker.is_usable():
            worker.close()
            worker = None
        worker = worker or self._new()
        if worker is None:
            return "the process that compiles for a GPU ended"
        compiled = worker.compile(request)
        with self.lock:
            self.idle.append(worker)
        return compiled

    def _new(self) -> _Worker | None:
        for _ in range(2):  # it may have ended a moment ago
            self.start()
            assert self.server is not None
            with contextlib.suppress(OSError), self.lock:
                return _Worker(self.server.connect(), self.server.settings)
        return None

    def _drop_connections(self) -> None:
        """Drop the connections in a child process: they are the parent's."""
        # If two processes read from one connection, one would get replies that are for the other. The lock may
        # have been held by a thread, which a fork does not copy.
        self.idle.clear()
        self.server = None
        self.lock = threading.Lock()

    def close(self) -> None:
        """End the processes."""
        with self.lock:
            workers, self.idle[:] = list(self.idle), []
            server, self.server = self.server, None
        for worker in workers:
            worker.close()
        if server is not None:
            server.close()


_workers = _Workers()


def start_workers() -> None:
    """Start the import of Triton in the worker process, while this process does other work."""
    if triton_version():
        _workers.start()


def end_workers() -> None:
    """End the processes that compile; others are started where there is work again."""
    _workers.close()
