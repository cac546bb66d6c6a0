"""Turns of threads: which wait, which launch instead of recording, and which count."""

from __future__ import annotations

import threading

import torch

from nbcompile.gpu.turns import Turns


def in_a_thread(work):
    """The result of a function in another thread, after its end."""
    found: list = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_one_recording_at_a_time():
    """A second recording is refused, and does not end the first."""
    turns = Turns()
    with turns.recording() as first:
        with turns.recording() as second:
            assert (first, second) == (True, False)
        assert turns.is_taken
        assert in_a_thread(lambda: turns.is_taken and turns.lock.acquire(blocking=False) and not turns.lock.release())
    assert not turns.is_taken


def test_an_error_ends_a_recording():
    """After an error, the next recording is allowed."""
    turns = Turns()
    try:
        with turns.recording():
            raise ValueError
    except ValueError:
        pass
    with turns.recording() as allowed:
        assert allowed


def test_threads_that_run_are_counted():
    """A thread that has ended does not count."""
    turns = Turns()
    begun, may_end = threading.Event(), threading.Event()
    answers: list[bool] = []

    def call() -> None:
        answers.append(turns.are_several())
        begun.set()
        may_end.wait()

    assert not turns.are_several()
    other = threading.Thread(target=call)
    other.start()
    begun.wait()
    assert answers == [True]
    assert turns.are_several()
    may_end.set()
    other.join()
    assert not turns.are_several()


def test_a_thread_of_the_backward_pass_does_not_count():
    """A thread of the backward pass does not count, because the calling thread waits for it."""
    turns = Turns()
    answers: list[bool] = []
    assert not turns.are_several()
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: answers.append(turns.are_several()))
    in_a_thread(lambda: y.sum().backward())
    assert answers == [False]
