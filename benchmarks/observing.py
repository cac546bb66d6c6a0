"""Cost of logs, traces and profilers that are off: calls and compiles beside each other, in one process.

    python -m benchmarks.observing          a Markdown table, for docs/design/observability.md

Three compiled copies of a function are called in turn: one that nothing can observe (no subscriber, no look at the
profiler), one as it is by default, and one after logs, a trace and a profiler were on and went off again.

Where one thread works, the clock is its CPU time. Read next: benchmarks/timing.py
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from unittest import mock

import torch

import nbcompile
from nbcompile import observe
from nbcompile.record import recorder
from nbcompile.runtime import program

ROUNDS, CALLS = 20, 1_000
Call = Callable[[], object]


def small() -> Call:
    """Two operators on eight numbers."""
    own, x = nbcompile.compile(lambda x: x.sin() + 1, isolate_recompiles=True), torch.randn(8)
    return lambda: own(x)


def network() -> Call:
    """The loss of a compiled layer, and the gradient of its weight through the compiled backward graph."""
    weight, x = torch.randn(16, 16, requires_grad=True), torch.randn(4, 16)
    own = nbcompile.compile(lambda x: (x @ weight).relu().sum(), isolate_recompiles=True)

    def step() -> None:
        own(x).backward()
        weight.grad = None

    return step


def is_off() -> bool:
    """No profiler."""
    return False


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Inside, no compile has subscribers, and no program looks for a profiler."""
    kept = list(recorder.subscribers)
    recorder.subscribers.clear()
    try:
        with mock.patch.object(program, "_profiler_enabled", is_off):
            yield
    finally:
        recorder.subscribers.extend(kept)


def compiled(make: Callable[[], Call]) -> Call:
    """A call of a newly compiled function, which is warm."""
    call = make()
    for _ in range(4):
        call()
    return call


def observed(call: Call) -> None:
    """Switch logs and a profiler on, call, and switch them off."""
    torch._logging.set_logs(graph_code=True, guards=True, recompiles=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        call()
    torch._logging.set_logs()


def seconds(call: Call) -> float:
    """CPU time of one call."""
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """Name and microseconds of each state: the least of the rounds, in each of which all states have their turn."""
    for name, make in (("two operators", small), ("layer, forward and backward", network)):
        with unobserved():
            bare = compiled(make)
        off, after = compiled(make), compiled(make)
        observed(after)
        states = {
            "bare": (bare, unobserved),
            "off": (off, contextlib.nullcontext),
            "after": (after, contextlib.nullcontext),
        }
        least = dict.fromkeys(states, float("inf"))
        for _ in range(ROUNDS):
            for state, (call, entered) in states.items():
                with entered():
                    least[state] = min(least[state], seconds(call) * 1e6)
        yield name, least


def asks() -> float:
    """Microseconds in which a compile asks whether anything is wanted."""
    return min(seconds(lambda: [each.wants_frames() for each in observe.SUBSCRIBERS]) for _ in range(ROUNDS)) * 1e6


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print("| microseconds of a call | nothing observes | off | on before, now off | off / nothing |")
    print(f"|---{'|--:' * 4}|")
    for name, found in rows():
        ratio = found["off"] / found["bare"]
        print(f"| {name} | {found['bare']:.2f} | {found['off']:.2f} | {found['after']:.2f} | {ratio:.3f} |", flush=True)
    print(
        f"\nA compile asks once for each of {len(observe.SUBSCRIBERS)} subscribers: {asks():.1f} microseconds together."
    )


if __name__ == "__main__":
    main()
