"""Threads for work of the compiler, also where the main thread of the program has ended.

    threads.submit("nbcompile tries", function, 3).result()      function(3), in a thread of its own
    threads.map_in("nbcompile cubins", 4, function, items)        its results in order, four calls at once

A ThreadPoolExecutor takes no more work once the main thread has ended, and a program may compile then: in a thread
that still runs, and in a function that ``atexit`` calls.

In torch: the pools of torch/_inductor/async_compile.py. Read next: nbcompile/runtime/extension.py
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def submit(name: str, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
    """Start a function in a new thread; the future has its result, or raises what it raised."""
    future: Future[Result] = Future()

    def work() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - who waits for the result gets it
            future.set_exception(error)

    try:
        threading.Thread(target=work, name=name).start()
    except RuntimeError:  # the interpreter ends, and starts no thread any more
        work()
    return future


def map_in(name: str, count: int, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function with each item, in a number of threads; returns the results in order.

    Raises:
        BaseException: what the function raised first, in the order of the threads.
    """
    pending, results = deque(enumerate(items)), dict[int, Result]()

    def work() -> None:
        while pending:
            try:
                position, item = pending.popleft()
            except IndexError:  # another thread took the last one
                return
            results[position] = function(item)

    started = [submit(name, work) for _ in range(count)]
    for future in started:
        future.result()
    return [results[position] for position in range(len(items))]
