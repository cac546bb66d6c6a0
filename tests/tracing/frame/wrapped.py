"""A value as a local variable of a traced frame: its tracker, and the guards that wrapping it adds.

    tracker, guards = wrapped([1, 2])
    [kind for kind, _ in guards]        [GuardKind.TYPE_MATCH, GuardKind.SEQUENCE_LENGTH]

In torch: nothing. Read next: tests/tracing/wrapping/test_containers.py
"""

from __future__ import annotations

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.variables.base import VariableTracker, realise
from tests.tracing.frame.single_frame import frame_of


def program(x: object) -> object:
    """A program with one local variable."""
    return x


def new_tracer() -> Interpreter:
    """The interpreter of a frame that has not run."""
    return frame_of(program, 1)[1]


def guards_of(tracer: Interpreter) -> list[tuple[GuardKind, object]]:
    """The kind and the expected value of each guard so far, in order."""
    return [(guard.kind, guard.expected) for guard in tracer.output.guards.values()]


def wrapped(value: object) -> tuple[VariableTracker, list[tuple[GuardKind, object]]]:
    """The tracker of a local variable, and the guards on it."""
    tracer = new_tracer()
    tracker = realise(tracer, tracer.wrap(value, LocalSource("x")))
    return tracker, guards_of(tracer)
