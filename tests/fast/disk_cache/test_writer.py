"""Entries are written after the call: its result does not wait, and no entry is lost."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time

import pytest
import torch

import nbcompile
from nbcompile import api, config, errors
from nbcompile.fast.disk_cache import storage, writer
from nbcompile.record import model
from tests.support.processes import command

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
X = torch.linspace(-1, 1, 8)
FUNCTION = """
import torch
def f(x):
    return torch.softmax(x, -1) * 2
def g(x):
    return torch.softmax(x, -1) * 3
"""


@pytest.fixture
def held(process, monkeypatch):
    """An event for which the disk waits."""
    event, add = threading.Event(), storage.add
    began = threading.Event()

    def slowly(*arguments, **options):
        began.set()
        assert event.wait(60)
        return add(*arguments, **options)

    monkeypatch.setattr(storage, "add", slowly)
    monkeypatch.setattr(storage, "_warned", set())
    event.began = began
    yield event
    event.set()
    writer.flush()


def entries(tmp_path):
    return sorted((tmp_path / "store" / "frames").glob("*/*.json"))


def run(source, name, *arguments):
    """The result of a new function and the cause of its code, without a flush of the store."""
    space = {}
    exec(compile(source, "<program>", "exec"), space)
    return called(space[name], *arguments)


def called(function, *arguments):
    frame_recorder = api.new_recorder(function.__name__)
    with frame_recorder.listening():
        result = nbcompile.compile(function)(*arguments)
    return result, [each.cause for each in frame_recorder.record().frames]


def test_the_result_does_not_wait_for_the_disk(held, tmp_path):
    """The call returns before its entry is written; later the entry is complete."""
    result, _ = run(FUNCTION, "f", X)
    torch.testing.assert_close(result, torch.softmax(X, -1) * 2)
    assert held.began.wait(60), "the writer begins by itself, when the call is over"
    assert entries(tmp_path) == []
    assert not writer.flush(timeout=0.01)
    held.set()
    assert writer.flush(timeout=60)
    (path,) = entries(tmp_path)
    assert storage.read(path) is not None


def test_who_looks_for_an_entry_waits_for_it(held, process, tmp_path):
    """A lookup of equal code waits for the entry that is being written; another key does not."""
    run(FUNCTION, "f", X)
    assert held.began.wait(60)
    assert not writer.flush(None, 0.01)
    assert writer.flush("another key", 0.01)
    threading.Timer(0.2, held.set).start()
    assert run(FUNCTION, "f", X)[1] == [model.LOADED_FROM_CACHE]


def test_reset_waits(held, tmp_path):
    """Entries of earlier compilations are on the disk after the reset."""
    run(FUNCTION, "f", X)
    threading.Timer(0.2, held.set).start()
    nbcompile.reset()
    assert len(entries(tmp_path)) == 1


TALK = """
import torch
seen = []
def f(x, look):
    x = torch.sin(x) + 1
    look()
    return torch.cos(x) * 2
"""


def test_nothing_is_written_beside_the_call(process, tmp_path, monkeypatch):
    """The writer waits while a compiled function runs: no entry is on the disk until the call is over."""
    seen = []

    def look():
        seen.append((len(writer._queue.pending), len(entries(tmp_path))))

    monkeypatch.setattr(writer, "MAX_DELAY", 60.0)
    run(TALK, "f", X, nbcompile.disable(look))
    assert seen == [(1, 0)]
    assert writer.flush(timeout=60)
    assert len(entries(tmp_path)) == 2


def test_a_call_that_never_ends_is_no_reason_to_write_nothing(process, tmp_path, monkeypatch):
    """The entry is written during the call after MAX_DELAY."""
    written = []

    def look():
        with writer._queue.changed:
            written.append(writer._queue.changed.wait_for(lambda: not writer._queue.pending, 60))

    monkeypatch.setattr(writer, "MAX_DELAY", 0.05)
    run(TALK, "f", X, nbcompile.disable(look))
    assert written == [True]


def test_what_is_drawn_behind_the_call_is_not_disturbed(process, tmp_path):
    """Inside `postponed` nothing is written after the call, unless it is needed; after the block it is."""
    with writer.postponed():
        with writer.postponed():
            run(FUNCTION, "f", X)
        time.sleep(20 * writer.POLL_INTERVAL)
        assert entries(tmp_path) == []
        assert writer.flush(timeout=60)
        assert len(entries(tmp_path)) == 1
        run(FUNCTION, "g", X)
    with writer._queue.changed:
        assert writer._queue.changed.wait_for(lambda: not writer._queue.pending, 60), "nobody asked"
    assert len(entries(tmp_path)) == 2


CHANGED = {
    "a function's code": ("def helper(x): return x * 2\ndef f(x): return helper(x) + 1",
                          "module.helper.__code__ = (lambda x: x * 5).__code__"),
    "a global": ("K = 2\ndef f(x): return x * K + 1", "module.K = 5"),
    "a member of a class": ("class C:\n    k = 2\nc = C()\ndef f(x): return x * c.k + 1", "module.C.k = 5"),
    "an entry of a dictionary": ("D = {'k': 2}\ndef f(x): return x * D['k'] + 1", "module.D['k'] = 5"),
    "a tensor's size": ("import torch\nW = torch.full((1,), 2.0)\ndef f(x): return x * W + 1",
                        "module.W.resize_(8).fill_(5.0)"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_kept_is_what_was_compiled(held, process, what):
    """Changes of objects between the call and the write do not change the entry."""
    source, change = CHANGED[what]
    first = process(source)
    torch.testing.assert_close(called(first.module.f, X)[0], X * 2 + 1)
    exec(change, {"module": first.module})
    held.set()
    as_it_was = process(source)
    as_it_was.call("f", X)
    assert as_it_was.loaded == [True]
    changed = process(source)
    exec(change, {"module": changed.module})
    torch.testing.assert_close(changed.call("f", X), X * 5 + 1)
    assert changed.loaded == [False]


def test_the_folder_is_that_of_the_call(held, tmp_path, monkeypatch):
    """A folder that is set in between applies to later calls."""
    run(FUNCTION, "f", X)
    monkeypatch.setenv(storage.VARIABLE, str(tmp_path / "elsewhere"))
    held.set()
    assert writer.flush(timeout=60)
    assert len(entries(tmp_path)) == 1
    assert not (tmp_path / "elsewhere").exists()


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_one_warning(process, tmp_path, monkeypatch):
    """There is one warning, also in the record; no draft file remains, and the function runs compiled."""
    monkeypatch.setattr(storage, "_warned", set())
    monkeypatch.setattr(storage, "_write", full)
    first = process(FUNCTION)
    frame_recorder = api.new_recorder("f")
    with pytest.warns(errors.StoreWarning, match="nothing is kept") as told, frame_recorder.listening():
        for name in ("f", "g"):
            nbcompile.compile(getattr(first.module, name))(X)
        assert writer.flush(timeout=60)
    assert len([each for each in told if each.category is errors.StoreWarning]) == 1
    assert {each.store for each in frame_recorder.record().frames} == {
        "not stored in the compile cache: the disk cannot be written"
    }
    assert [path for path in (tmp_path / "store" / "frames").rglob("*") if path.is_file()] == []


def test_a_warning_that_is_an_error_stops_no_other_entry(process, tmp_path, monkeypatch):
    """The warning is reported as an exception of the thread, which continues with other entries."""
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    nbcompile.reset()

    def fails():
        raise errors.StoreWarning("rejected")

    writer.enqueue("some key", fails)
    run(FUNCTION, "g", X)
    assert writer.flush(timeout=60)
    assert [each.exc_type for each in told] == [errors.StoreWarning]
    assert len(entries(tmp_path)) == 1


@pytest.fixture
def interruptible():
    """A fixture in which Ctrl-C raises an error, also in a background job of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_a_waiting_thread(ident):
    """Send Ctrl-C to a thread as soon as it waits for the writer."""
    for _ in range(6000):
        if writer._queue.waiters:
            break
        time.sleep(0.01)
    signal.pthread_kill(ident, signal.SIGINT)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of threads")
def test_an_interrupt_during_a_wait_loses_nothing(held, interruptible, tmp_path):
    """Ctrl-C ends the wait, not the write."""
    run(FUNCTION, "f", X)
    assert held.began.wait(60)
    thread = threading.Thread(target=interrupt_a_waiting_thread, args=(threading.main_thread().ident,))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        writer.flush()
    thread.join()
    assert writer._queue.waiters == 0
    held.set()
    assert writer.flush(timeout=60)
    assert len(entries(tmp_path)) == 1


@forks
def test_a_fork_waits(held, process, tmp_path):
    """The child process finds the entry, and writes its own."""
    run(FUNCTION, "f", X)
    threading.Timer(0.2, held.set).start()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = len(entries(tmp_path))
            run(FUNCTION, "g", X)
            status = 0 if found == 1 and writer.flush(timeout=60) and len(entries(tmp_path)) == 2 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert writer._queue.pending == writer._queue.pending.__class__()


@forks
def test_a_child_does_not_write_what_the_parent_is_writing(held, monkeypatch, tmp_path):
    """A fork continues if the disk does not respond; only the parent writes the entry."""
    monkeypatch.setattr(writer, "TIMEOUT", 0.05)
    run(FUNCTION, "f", X)
    with pytest.warns(errors.StoreWarning, match="the disk was busy"):
        child = os.fork()
        if child == 0:
            os._exit(0 if writer.flush(timeout=1) and not writer._queue.pending else 1)
        assert os.waitpid(child, 0)[1] == 0
    held.set()
    assert writer.flush(timeout=60)
    assert len(entries(tmp_path)) == 1


ENDS = """
import multiprocessing, os, sys, time
import torch, nbcompile
from nbcompile.fast.disk_cache import storage
add = storage.add
def slowly(*arguments, **options):
    time.sleep(0.5)
    return add(*arguments, **options)
storage.add = slowly
@nbcompile.compile
def f(x):
    return torch.softmax(x, -1) * 2
def work():
    f(torch.linspace(-1, 1, 8))
"""
END = {
    "the last line": ("work()", 1, 0),
    "sys.exit": ("work()\nsys.exit(3)", 1, 3),
    "an exception": ("work()\n1 / 0", 1, 1),
    "an interrupt": ("work()\nraise KeyboardInterrupt", 1, -2),
    "a child of multiprocessing": (
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()", 1, 0,
    ),
    "os._exit": ("work()\nos._exit(0)", 0, 0),
}  # fmt: skip


@pytest.mark.rotates(3)
@pytest.mark.parametrize("how", END)
def test_the_end_of_a_process_waits(how, tmp_path):
    """The entry is complete at a normal end of the program; after a kill there is no partial entry."""
    program, there, status = END[how]
    where = {"NBCOMPILE_CACHE_DIR": tmp_path / "store", "NBCOMPILE_WARM_START": "1", storage.VARIABLE: None}
    done = command(sys.executable, "-c", ENDS + program, status=status, **where)
    assert "StoreWarning" not in done.stderr
    assert len(entries(tmp_path)) == there
    assert list((tmp_path / "store" / "frames").rglob("*.draft")) == []


def test_a_busy_machine_is_no_busy_disk(process, monkeypatch, recwarn):
    """The interpreter's end waits for a thread that computes, and not for one that is blocked."""
    monkeypatch.setattr(writer, "TIMEOUT", 0.2)
    monkeypatch.setattr(storage, "_warned", set())
    written, stuck = [], threading.Event()

    def compute():
        ends = time.monotonic() + 0.7
        while time.monotonic() < ends:
            sum(range(100))
        written.append("computed")

    writer.enqueue("key", compute)
    writer._finish()
    assert written == ["computed"]
    assert not [each for each in recwarn if issubclass(each.category, errors.StoreWarning)]
    writer.enqueue("key", stuck.wait)
    with pytest.warns(errors.StoreWarning, match="the disk was busy"):
        writer._finish()
    stuck.set()
    writer.flush()


def test_without_threads_it_is_written_at_once(process, tmp_path, monkeypatch):
    """No thread can be started at the end of the interpreter, so the entry is written at once."""
    nbcompile.reset()

    def reject(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", reject)
        writer.enqueue("key", lambda: storage.add("key", {}, None) and None)
        assert len(entries(tmp_path)) == 1
        assert writer.flush()


def test_off_means_off(process, tmp_path):
    """With the store off, nothing is queued and no thread is started."""
    with config.patch(warm_start=False):
        run(FUNCTION, "f", X)
    assert not writer._queue.pending
    assert entries(tmp_path) == []
