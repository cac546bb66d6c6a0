"""Work in threads of the compiler."""

from __future__ import annotations

import threading

import pytest

from nbcompile.support import threads
from tests.support.processes import python


def test_a_future_has_the_result_or_the_exception():
    """The function runs in another thread, with the name that is given."""
    assert threads.submit("a name", lambda n: (n, threading.current_thread().name), 3).result() == (3, "a name")
    with pytest.raises(ZeroDivisionError):
        threads.submit("a name", lambda: 1 / 0).result()


@pytest.mark.parametrize("count", [1, 3, 9])
def test_results_are_in_the_order_of_the_items(count):
    """Each item is taken once."""
    assert threads.map_in("a name", count, lambda n: n * n, range(7)) == [n * n for n in range(7)]


def test_an_exception_of_an_item_is_raised():
    """What the function raises ends the map."""
    with pytest.raises(ZeroDivisionError):
        threads.map_in("a name", 2, lambda n: 1 / n, (1, 0, 2))


def test_without_new_threads_the_work_is_done_here(monkeypatch):
    """An interpreter that ends starts no thread."""

    def raises(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", raises)
    assert threads.map_in("a name", 2, lambda n: n + 1, (1, 2)) == [2, 3]


LATE = """
import atexit, threading, time, torch, warnings
import nbcompile
warnings.simplefilter("error")
f = nbcompile.compile(lambda x: (x * 3).relu(), dynamic=False)
atexit.register(lambda: print(f(torch.ones(2)).tolist()))
def late():
    threading.main_thread().join()
    print(f(torch.ones(1)).tolist())
threading.Thread(target=late).start()
"""


@pytest.mark.compiles
def test_compiling_after_the_main_thread(tmp_path):
    """A thread that outlives the main thread, and a function of ``atexit``, compile as before."""
    for _ in range(2):
        assert python(LATE, NBCOMPILE_CACHE_DIR=tmp_path).split("\n")[:2] == ["[3.0]", "[3.0, 3.0]"]
