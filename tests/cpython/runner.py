"""Tests of ``unittest``, each called from one compiled frame and so inlined, between two operators.

    python -m tests.cpython test_list test_dict        two modules of CPython's own tests
    python -m tests.cpython test_list ListTest.test_sort

Programs that nobody here wrote: an assertion fails while tracing where the compiler's answer is not Python's. What is
not traced whole is compiled once more with graph breaks, and has to pass then.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import signal
import unittest
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch

import nbcompile
from nbcompile.errors import Unsupported
from tests.cpython import assertions

EAGER_SECONDS, COMPILED_SECONDS = 6, 25
"""Processor time for a test: a busy machine does not look like a hang."""


class Outcome(enum.Enum):
    """The end of one test."""

    WHOLE = "traced whole"
    BREAKS = "breaks, and passes"
    OTHER_ANSWER = "another answer while tracing; the frame runs in Python and passes"
    WRONG = "fails when compiled"
    LIMIT = "takes too long to trace"
    FAILS = "fails in eager mode too, or is skipped"


@dataclass(frozen=True)
class InlinedTest:
    """A test, what became of it, and why."""

    name: str
    outcome: Outcome
    reason: str = ""


class TimeLimit(BaseException):
    """A test that does not end: no handler of the test's own catches it."""


def run(module: str, only: Collection[str] = ()) -> Iterator[InlinedTest]:
    """Run the tests of a module one after another.

    Args:
        module: its full name.
        only: names ``Class.method``; all if empty.
    """
    assertions.replace()
    warnings.simplefilter("ignore")
    ready: dict[type, bool] = {}
    tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))
    for test in _each_of(tests):
        name = f"{type(test).__name__}.{test._testMethodName}"
        if only and name not in only:
            continue
        if type(test) not in ready:
            ready[type(test)] = _set_up_class(type(test))
        if not ready[type(test)] or _is_skipped(test) or _eager(test) is not None:
            yield InlinedTest(name, Outcome.FAILS)
        else:
            yield InlinedTest(name, *_inlined(test))


def _inlined(test: unittest.TestCase) -> tuple[Outcome, str]:
    whole = _compiled(test, fullgraph=True)
    if whole is None:
        return Outcome.WHOLE, ""
    if isinstance(whole, TimeLimit):
        return Outcome.LIMIT, ""
    parts = _compiled(test, fullgraph=False)
    if isinstance(parts, TimeLimit):
        return Outcome.LIMIT, ""
    if parts is not None:
        return Outcome.WRONG, f"{type(parts).__name__}: {parts}"
    text = f"{type(whole).__name__}: {whole}"
    if "Observed" in text or not isinstance(whole, Unsupported):
        return Outcome.OTHER_ANSWER, text
    return Outcome.BREAKS, str(whole).partition("\n")[0]


def _each_of(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from _each_of(test)
        else:
            yield test


def _set_up_class(cls: type[unittest.TestCase]) -> bool:
    try:
        cls.setUpClass()
    except BaseException:  # it skips its tests, or this machine lacks what they need
        return False
    return True


def _is_skipped(test: unittest.TestCase) -> bool:
    marked = type(test), getattr(test, test._testMethodName)
    return any(getattr(each, "__unittest_skip__", False) for each in marked)


def _eager(test: unittest.TestCase) -> BaseException | None:
    return _attempt(test, getattr(test, test._testMethodName), EAGER_SECONDS)


def _compiled(test: unittest.TestCase, *, fullgraph: bool) -> BaseException | None:
    method = getattr(test, test._testMethodName)

    def frame(x):
        y = x + 1
        method()
        return y * 2

    nbcompile.reset()
    compiled = nbcompile.compile(frame, backend="eager", fullgraph=fullgraph)

    def call() -> None:
        result = compiled(torch.ones(2))
        assert torch.equal(result, torch.full((2,), 4.0)), "the frame's own result"

    return _attempt(test, call, COMPILED_SECONDS)


def _attempt(test: unittest.TestCase, call, seconds: int) -> BaseException | None:
    """Set up, call, tear down; what was raised."""
    with _time_limit(seconds):
        try:
            try:
                test.setUp()
                call()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                test.tearDown()
                test.doCleanups()
        except BaseException as error:
            return error
    return None


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def end(*_) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
