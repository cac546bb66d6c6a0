"""Work in several threads at once.

    in_threads(lambda number: compiled(xs[number]), 4)       [result of thread 0, ..., result of thread 3]

In torch: nothing. Read next: tests/support/processes.py
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_threads(work: Callable[[int], Any], count: int = 4) -> list[Any]:
    """The results of ``work(0)``, ``work(1)``, ..., which start together; the first exception is raised."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
