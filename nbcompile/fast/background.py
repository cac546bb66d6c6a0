"""Compile graphs in a background thread; until then a graph runs in eager mode, as it was captured.

    with nbcompile.config.patch(background=True): f(x)      traced, run operator by operator, without a wait for C++
    nbcompile.fast.background.jobs()                             (Job("__compiled_fn_1", "compiling", 0.4),)
    f(x)                                                    later: generated code

Only the graph waits for its code. It was traced before, its guards and the residual program are final, so side effects
happen once and in order whichever of the two runs. One thread compiles, one graph after another; it holds the lock
of the frame hook, except while the C++ compiler runs. A graph with symbolic sizes, or under autocast, inference mode or
a torch function mode, is compiled at once: what compiling finds out of sizes belongs into its guards, and those states
belong to the thread of the call.

In torch: torch/_inductor/compile_fx_async.py. Read next: nbcompile/backends/captured_graph.py
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nbcompile import backends, config, errors, torch_internals
from nbcompile.capture.trace import CapturedGraph
from nbcompile.dispatch import hook
from nbcompile.hooks import Backend
from nbcompile.ir import compiled_artifact
from nbcompile.record import recorder
from nbcompile.runtime import compiler_processes
from nbcompile.support import users_line
from nbcompile.support.process_state import STATE, Lifetime

Compiled = Callable[..., Any]
NOTE = "compiled in the background: until it was ready, the graph ran as it was captured"


@dataclass(slots=True)
class Job:
    """One graph that is, or was, compiled in the background."""

    name: str
    state: str = "waiting"
    """``waiting``, ``compiling``, ``ready`` or ``failed``."""
    seconds: float = 0.0
    """Compile time."""
    done: threading.Event = field(default_factory=threading.Event, repr=False)


_jobs: list[Job] = STATE.add("fast.background._jobs", [], Lifetime.TASK)
_queue: queue.SimpleQueue[Callable[[], None]] = STATE.add("fast.background._queue", queue.SimpleQueue(), Lifetime.TASK)
_worker: list[threading.Thread] = STATE.add("fast.background._worker", [], Lifetime.TASK)


def jobs() -> tuple[Job, ...]:
    """All jobs of this process, in the order in which they were queued."""
    return tuple(_jobs)


def wait(timeout: float | None = None) -> bool:
    """Wait for the compiler thread; True if all jobs are done."""
    ends = None if timeout is None else time.monotonic() + timeout
    return all(each.done.wait(None if ends is None else max(ends - time.monotonic(), 0.0)) for each in jobs())


def compile_graph(backend: Backend, graph: CapturedGraph, inputs: Sequence[Any]) -> Compiled:
    """Compile a captured graph: in the background if the settings say so and the graph allows it, else now."""
    # The graph runs as captured until it is compiled: that needs no symbols, no subclasses and no modes.
    if not config.background or not can_run_in_background(inputs, graph.symbolic):
        return backend(graph.module, inputs)
    # Fakes created now: the real inputs may be freed or changed when the worker begins.
    fakes = torch_internals.fake_counterparts(inputs)
    return compile_later(graph.name, lambda: backend(graph.module, fakes), backends.hidden(graph.module.forward))


def can_run_in_background(inputs: Sequence[object], symbolic: bool) -> bool:
    """True if a graph can be compiled by another thread, later."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    return not (
        symbolic
        or len(tensors) < len(inputs)
        or any(torch_internals.is_overriding(each) for each in tensors)
        or torch.is_inference_mode_enabled()
        or torch._C._is_any_autocast_enabled()
        or torch_internals.function_modes()
    )


def compile_later(name: str, compile_graph: Callable[[], Compiled], meanwhile: Compiled) -> Compiled:
    """A callable that is ``meanwhile`` until the worker has run ``compile_graph``, and then what that returned."""
    # A list of one: ``call`` reads it at each call, and the worker replaces its element, which needs no lock.
    running, job, draft = [meanwhile], Job(name), recorder.draft()
    grad_mode, ready = torch._C.is_grad_enabled(), compiled_artifact.defer()

    def call(*arguments: Any) -> Any:
        return running[0](*arguments)

    def run() -> None:
        # Compiling is one at a time in the process; the grad mode is a state of the thread.
        with hook.compiling(), torch.set_grad_enabled(grad_mode):
            running[0] = compile_graph()
            for finish in ready:
                finish()

    torch_internals.hide_from_hook(call.__code__)
    if draft is not None:
        draft.add_to_graph("notes", NOTE)
    # Context variables of this thread, as the recorder, apply to the worker's job as well.
    context = contextvars.copy_context()
    _jobs.append(job)
    _queue.put(lambda: context.run(_work, job, run, draft))
    _start()
    return call


def _work(job: Job, run: Callable[[], None], draft: recorder.FrameDraft | None) -> None:
    began, job.state = time.perf_counter(), "compiling"
    try:
        run()
        job.state = "ready"
    except Exception as error:  # noqa: BLE001  # whatever it raises is compared
        job.state = "failed"
        text = f"{job.name} runs as it was captured; compiling it failed ({type(error).__name__}: {error})"
        users_line.warn(errors.GeneratedCodeWarning(text))
    job.seconds = time.perf_counter() - began
    if draft is not None:
        draft.rewrite()
    job.done.set()


def _start() -> None:
    if not _worker or not _worker[0].is_alive():
        _worker[:] = [threading.Thread(target=_serve, name="nbcompile background", daemon=True)]
        _worker[0].start()


def _serve() -> None:
    # While the C++ compiler runs, calls that must compile may continue.
    compiler_processes.builds.around = hook.not_compiling
    while True:
        _queue.get()()


def _forget() -> None:
    """Run what was waiting as it was captured: a forked child has no worker."""
    global _queue  # noqa: PLW0603 - the lock of the old one may be held for ever
    _queue = STATE.add("fast.background._queue", queue.SimpleQueue(), Lifetime.TASK)
    _worker.clear()
    _jobs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
