"""All encodings of guards: each must accept the traced call and reject a changed one.

    made = encode(check, guards, frame)           {"tree": ..., "predicates": ..., "instructions": ..., ...}
    made["stored"].accepts(other_frame)           whether guards that a later process reads accept a call

The table of the package (``guarding/encodings/table.py``) has the encodings of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache import addresses, stored_guards
from nbcompile.guarding import explain, guard_expressions
from nbcompile.guarding.accessors import SourceCache
from nbcompile.guarding.check import FrameCheck, GuardsDoNotHold, build_check
from nbcompile.views import predict
from tests.guarding import in_c

Accepts = Callable[[Frame], bool]


def tree(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts:
    """The tree of torch's C++ guards."""
    return lambda other: check.holds(other.scope())


def predicates(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts:
    """The predicate of each guard in Python."""
    return lambda other: check.holds_slowly(other.scope())


def sentence(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts:
    """The reason of the failure: None, or one sentence."""
    assert all(entry.words and entry.condition for entry in explain.describe(check, "0/0"))

    def accepts(other: Frame) -> bool:
        failed = check.failure(other.scope(), "0/0")
        assert failed is None or failed.reason
        return failed is None

    return accepts


def expression(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts:
    """The expression trees that a page evaluates, on values read from the call."""
    readings = guard_expressions.GuardExpressions()
    tests = [json.dumps(readings.test(item, frame.scope())) for item in check.prepared]
    rows = explain.describe(check, "0/0", tests)

    def accepts(other: Frame) -> bool:
        values = readings.take(other.scope())
        return all(predict.holds(row, values) for row in rows)

    return accepts


def instructions(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts | None:
    """The instructions that fast_call.c evaluates."""
    made = in_c.written(check, frame.scope())
    # Instructions may reject an accepted call: if the locals are not the arguments, it takes the slow path.
    if made is None or not in_c.hits(made, frame.scope()):
        return None
    return lambda other: in_c.hits(made, other.scope())


def stored(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts | None:
    """The entry on disk, read by a process in which the other call is the first."""
    table = addresses.SourceWriter(SourceCache(frame.scope()))
    try:
        text = json.dumps([stored_guards.write(guards, table), table.data()])
    except NotStorable:
        return None

    def accepts(other: Frame) -> bool:
        rows, known = json.loads(text), SourceCache(other.scope())
        try:
            read = stored_guards.read(rows[0], addresses.read(rows[1], known), known)
            return build_check(read, other).holds(other.scope())
        except (Unreadable, NotStorable, GuardsDoNotHold):
            return False

    return accepts


ENCODINGS: dict[str, Callable[[FrameCheck, tuple[Guard, ...], Frame], Accepts | None]] = {
    "tree": tree,
    "predicates": predicates,
    "sentence": sentence,
    "expression": expression,
    "instructions": instructions,
    "stored": stored,
}
"""Functions that encode guards; None: a guard has no such encoding."""


def encode(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> dict[str, Accepts]:
    """The guards in each encoding that can express them."""
    made = {name: write(check, guards, frame) for name, write in ENCODINGS.items()}
    return {name: accepts for name, accepts in made.items() if accepts is not None}
