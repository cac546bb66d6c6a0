"""Ctrl-C at random moments of compiling and calling: ``python interrupt.py how points seed``, in its own process.

``timer``: a signal is sent after a random delay, to whichever thread takes it. ``lines``: it is sent at a random line
of Python, counted by ``sys.settrace``, so that what takes long is met no more often than what is short. The handler
notes which stage it met and raises ``KeyboardInterrupt``. Then nothing may be left in place, and the same call must be
right. Prints the points of each stage as JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import torch

import nbcompile
from nbcompile import torch_internals
from nbcompile.dispatch import hook, lifetimes
from nbcompile.record import recorder
from nbcompile.runtime import compiler_processes, store
from nbcompile.torch_internals import eval_frame, interrupts

STAGES = {
    "tracing": ("tracing", "capture", "bytecode"),
    "guards and residual program": ("guarding", "rewriting"),
    "other": ("",),
    "lowering": ("aot", "lowering", "ir", "scheduling", "codegen", "backends"),
    "building": ("runtime/toolchain.py", "runtime", "fast/prebuild.py"),
    "store": ("fast/disk_cache", "runtime/store.py"),
    "record": ("record", "recording", "views", "observe"),
    "fast calls": ("fast",),
    "dispatch": ("dispatch", "eval_frame", "driver"),
}
"""Of which folder or file the innermost frame of the compiler is; the longest name decides."""
SHARED = ("torch_internals", "support", "config.py", "annotations.py", "errors.py")
"""What every stage calls: its caller's stage is met."""

PROGRAM = """
def helper(x, k):
    return torch.relu(x * k).sum(-1, keepdim=True)
def f(x, table):
    y = helper(x, table["k"]) + {number}
    {middle}
    for value in table["more"]:
        y = y * value + x
    return y.softmax(-1) - x.mean()
"""
MIDDLES = {"whole": "pass", "with a break": "torch._dynamo.graph_break()"}
TABLE = {"k": 2.0, "more": (1.5, -0.5, 3.0)}

armed = [False]
hits: list[str] = []


def stage_of(frame) -> str:
    """Which stage the innermost frame of the compiler belongs to."""
    root = str(Path(nbcompile.__file__).parent) + os.sep
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(root) and not (inside := name[len(root) :]).startswith(SHARED):
            found = [(len(part), stage) for stage, parts in STAGES.items() for part in parts if inside.startswith(part)]
            return max(found)[1]
        frame = frame.f_back
    return "running"


def interrupt(number, frame) -> None:
    """What Ctrl-C does. In the tracer it comes again later, also where it met the handler that was called there."""
    if armed[0] and frame is not None and frame.f_code in (Lines.seen.__code__, interrupt.__code__):
        signal.setitimer(signal.ITIMER_REAL, 2e-5)
    elif armed[0]:
        armed[0] = False
        hits.append(stage_of(frame))
        raise KeyboardInterrupt


def struck_by_timer(delay: float, act):
    """Call ``act``; Ctrl-C after a delay. Its value, or the exception that came out."""
    try:
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))
        try:
            return act()
        finally:
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as error:
        return error


class Lines:
    """Counts lines of Python that run, and sends the signal at one of them.

    It is handled where CPython handles signals, after a call or at a jump back from that line on, and not by the
    tracer: that would raise it between any two lines, where no Ctrl-C can.
    """

    def __init__(self, at: float) -> None:
        self.at, self.count = int(at), 0

    def seen(self, frame, event, argument):
        if event == "line":
            self.count += 1
            if self.count == self.at:
                signal.setitimer(signal.ITIMER_REAL, 1e-6)
        return self.seen


def struck_at_line(at: float, act):
    """Call ``act``; Ctrl-C at a line of it. Its value, or the exception that came out."""
    lines = Lines(at)
    try:
        armed[0] = True
        sys.settrace(lines.seen)
        try:
            return act()
        finally:
            sys.settrace(None)
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as error:
        return error


def seconds(act):
    """The value, and how many seconds it takes."""
    began = time.perf_counter()
    return act(), time.perf_counter() - began


def lines(act):
    """The value, and how many lines of Python run."""
    counted = Lines(-1)
    sys.settrace(counted.seen)
    try:
        return act(), counted.count
    finally:
        sys.settrace(None)


HOW = {"timer": (struck_by_timer, seconds), "lines": (struck_at_line, lines)}


def state() -> dict[str, object]:
    """What a call may change for a moment, and must put back."""
    return {
        "frame hook": eval_frame.get_eval_frame_callback(),
        "region": hook.get_region(),
        "garbage collector": gc.isenabled(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "torch functions": torch._C._is_torch_function_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "autocast": torch._C._is_any_autocast_enabled(),
        "random state": torch.initial_seed(),
        "record": recorder.draft(),
        "listening": recorder.listening(),
        "builds of the store": len(store._in_progress),
        "compilers": len([each for each in compiler_processes._running if each.poll() is None]),
        "work during builds": compiler_processes.builds.concurrent_task,
        "calls": sys.getrefcount(lifetimes.INSIDE),
        "function modes of ours": len(torch_internals.function_modes()),
        "threads that wait": others_can_compile(),
        "recursion limit": sys.getrecursionlimit(),
        "signal mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "handlers": [signal.getsignal(each) for each in interrupts.SIGNALS],
        "signals that wait": interrupts._block[0],
    }


def others_can_compile() -> bool:
    """Whether another thread gets the compiler's lock."""
    free = []

    def ask() -> None:
        if hook._compiling.acquire(timeout=20):
            hook._compiling.release()
            free.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return bool(free)


def written(number: int, middle: str):
    """A function of its own, with a constant that makes its code another."""
    namespace = {"torch": torch}
    exec(PROGRAM.format(number=float(number), middle=MIDDLES[middle]), namespace)
    return namespace["f"]


class Turn:
    """One program, called one way."""

    kinds = ("cold", "kernels in the store", "loaded", "called", "explained")

    def __init__(self, kind: str, rng: random.Random, numbers) -> None:
        self.kind, self.middle, self.train = kind, rng.choice(list(MIDDLES)), rng.random() < 0.3
        self.number = next(numbers) if kind == "cold" else 1
        self.x = torch.linspace(-1, 1, 12).reshape(3, 4)
        self.compiles = [0]

    def prepare(self) -> None:
        nbcompile.reset()
        nbcompile.config.warm_start = self.kind != "kernels in the store"
        self.eager = written(self.number, self.middle)
        self.f = nbcompile.compile(self.eager)
        if self.kind == "called":
            self.call()

    def call(self):
        x = self.x.clone().requires_grad_(self.train)
        y = self.f(x, TABLE)
        if self.train:
            y.square().sum().backward()
        return y.detach(), x.grad

    def act(self):
        if self.kind == "explained":
            return nbcompile.explain(self.f)(self.x, TABLE).result.detach(), None
        if self.kind != "called":
            return self.call()
        for _ in range(20):
            value = self.call()
        return value

    def expected(self):
        x = self.x.clone().requires_grad_(self.train)
        y = self.eager(x, TABLE)
        if self.train and self.kind != "explained":
            y.square().sum().backward()
        return y.detach(), x.grad

    def check(self, value) -> None:
        for got, want in zip(value, self.expected(), strict=True):
            torch.testing.assert_close(got, want)


def measured(measure, kind: str, rng, numbers) -> float:
    """How long such a turn is."""
    turn = Turn(kind, rng, numbers)
    turn.prepare()
    value, length = measure(turn.act)
    turn.check(value)
    return length


def strike_once(strike, kind: str, longest: float, rng, numbers) -> str:
    """One point: where it was met; "" if the call had ended before."""
    turn = Turn(kind, rng, numbers)
    turn.prepare()
    before, met = state(), len(hits)
    # Half of the points in the first tenth: loading and the start of tracing are short.
    result = strike(rng.random() * longest * rng.choice((1.0, 0.1)), turn.act)
    stage = hits[-1] if len(hits) > met else ""
    frames = "".join(traceback.format_exception(result)) if isinstance(result, BaseException) else ""
    if not frames:
        turn.check(result)
    del result
    try:
        gc.collect()  # what the interrupt's traceback held
        after = state()
        assert after == before, {name: (before[name], after[name]) for name in before if before[name] != after[name]}
        for _ in range(2):
            turn.check(turn.call() if turn.kind != "explained" else turn.act())
    except BaseException:
        print(f"after Ctrl-C in {stage}, {turn.kind}, {turn.middle}:\n{frames}", file=sys.stderr)
        raise
    return stage


def use_a_quick_compiler(folder: Path) -> None:
    """The one there is, without optimisation: this is about interrupts."""
    path = folder / "quick-g++"
    path.write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
    path.chmod(0o755)
    os.environ["CXX"] = str(path)


def main(how: str, points: int, seed: int) -> None:
    faulthandler.enable()
    strike, measure = HOW[how]
    folder = Path(tempfile.mkdtemp(prefix="interrupt-"))
    os.environ[store.VARIABLE] = str(folder / "store")
    use_a_quick_compiler(folder)
    signal.signal(signal.SIGALRM, interrupt)
    rng, numbers = random.Random(seed), iter(range(2, 1_000_000))
    kinds = ("cold", *("kernels in the store", "loaded", "called", "explained") * 3)
    longest = {kind: [measured(measure, kind, rng, numbers) for _ in range(2)][1] for kind in Turn.kinds}
    gc.collect()
    gc.freeze()  # what is imported by now: the collections after each point take a tenth of the time
    counts: Counter[str] = Counter()
    tries = 0
    failures: Counter[str] = Counter()
    try:
        while counts.total() - counts[""] < points and tries < 6 * points:
            kind = kinds[tries % len(kinds)]
            tries += 1
            try:
                counts[strike_once(strike, kind, longest[kind], rng, numbers)] += 1
            except Exception as error:
                failures[f"{type(error).__name__}: {error}".replace("\n", " ")[:300]] += 1
                traceback.print_exc()
            if tries % 50 == 0:
                print(dict(counts), dict(failures), file=sys.stderr, flush=True)
        left = [str(each) for each in folder.rglob("*-*") if each.name != "quick-g++"]
        assert not left, f"unfinished files: {left[:5]}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"points": dict(counts), "tries": tries, "failures": dict(failures)}))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
