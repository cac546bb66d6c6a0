"""The lock of replays: which threads wait, which launch instead of recording, and which count."""

from __future__ import annotations

import threading

import torch

from nbcompile.gpu.replay_lock import ReplayLock


def in_a_thread(work):
    """The result of a function in another thread, after its end."""
    found: list = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_one_recording_at_a_time():
    """A second recording is not allowed, and does not end the first."""
    lock = ReplayLock()
    with lock.recording() as first:
        with lock.recording() as second:
            assert (first, second) == (True, False)
        assert lock.is_held
        assert in_a_thread(lambda: lock.is_held and lock.lock.acquire(blocking=False) and not lock.lock.release())
    assert not lock.is_held


def test_an_error_ends_a_recording():
    """After an error, the next recording is allowed."""
    lock = ReplayLock()
    try:
        with lock.recording():
            raise ValueError
    except ValueError:
        pass
    with lock.recording() as allowed:
        assert allowed


def test_threads_that_run_are_counted():
    """A thread that has ended does not count."""
    lock = ReplayLock()
    begun, may_end = threading.Event(), threading.Event()
    answers: list[bool] = []

    def call() -> None:
        answers.append(lock.has_several_threads())
        begun.set()
        may_end.wait()

    assert not lock.has_several_threads()
    other = threading.Thread(target=call)
    other.start()
    begun.wait()
    assert answers == [True]
    assert lock.has_several_threads()
    may_end.set()
    other.join()
    assert not lock.has_several_threads()


def test_a_thread_of_the_backward_pass_does_not_count():
    """A thread of the backward pass does not count, because the calling thread waits for it."""
    lock = ReplayLock()
    answers: list[bool] = []
    assert not lock.has_several_threads()
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: answers.append(lock.has_several_threads()))
    in_a_thread(lambda: y.sum().backward())
    assert answers == [False]
