"""Timing on a machine that is shared: interleaved, minimum over rounds, per call.

    best({"eager": f, "nbcompile": g}, rounds=5)   {"eager": 3.9e-06, "nbcompile": 1.2e-06}

Every round times each candidate once, so a slow moment hits all of them; the
minimum is what the code can do. With one thread the clock counts this process's
CPU time, which other processes cannot stretch; with more it is the wall's.

Read next: benchmarks/tasks.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch


def clock() -> Callable[[], float]:
    """CPU time where one thread works, wall time otherwise."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def best(candidates: Mapping[str, Callable[[], object]], rounds: int, seconds: float = 0.03) -> dict[str, float]:
    """The least time of one call of each candidate, in seconds; a round lasts about ``seconds`` each."""
    now = clock()
    loops = {name: _loops(call, seconds, now) for name, call in candidates.items()}
    least = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, call in candidates.items():
            least[name] = min(least[name], _one(call, loops[name], now))
    return least


def _loops(call: Callable[[], object], seconds: float, now: Callable[[], float]) -> int:
    for _ in range(3):
        call()
    count = 1
    while (took := _one(call, count, now) * count) < seconds / 4:
        count *= 4
    return max(1, round(count * seconds / took))


def _one(call: Callable[[], object], count: int, now: Callable[[], float]) -> float:
    loop = range(count)
    began = now()
    for _ in loop:
        call()
    return (now() - began) / count
