"""Every way in which guards are written down, as one table: each must accept the call that was traced and refuse a change.

    made = encode(check, guards, frame)           {"tree": ..., "predicates": ..., "instructions": ..., ...}
    made["stored"].accepts(other_frame)           whether guards that a later process reads accept a call

An encoding is named by the table of the package that has a row for each kind; a kind without a row has its reason here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.fast import guard_bytecode
from nbcompile.fast.disk_cache import addresses, stored_guards
from nbcompile.fast.disk_cache.literals import NotStorable, Unreadable
from nbcompile.guarding import ambient, explain, guard_expressions, guard_kinds
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
    """The reason that is shown: none, or one sentence."""
    assert all(entry.words and entry.condition for entry in explain.describe(check, "0/0"))

    def accepts(other: Frame) -> bool:
        failed = check.failure(other.scope(), "0/0")
        assert failed is None or failed.reason
        return failed is None

    return accepts


def expression(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts:
    """The trees that a page evaluates, over values that were taken from the call."""
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
    # What they refuse though the guards accept it takes the slow path: a frame whose locals are not its arguments.
    if made is None or not in_c.hits(made, frame.scope()):
        return None
    return lambda other: in_c.hits(made, other.scope())


def stored(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> Accepts | None:
    """The entry on disk, read by a process for which the other call is the first."""
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


@dataclass(frozen=True)
class Encoding:
    """One way to write guards."""

    write: Callable[[FrameCheck, tuple[Guard, ...], Frame], Accepts | None]
    """None: a guard has no such form."""
    kinds: frozenset[GuardKind]
    """Kinds with a row in the table of the package."""
    without: Mapping[GuardKind, str] = field(default_factory=dict)
    """Other kinds, and the reason."""


K = GuardKind
PREPARED = {*guard_kinds._KINDS, *ambient.AMBIENT_KINDS}
BY_PREDICATE = "a page gets one value: whether the predicate holds"
SLOW_PATH = "calls of such a function go through the frame hook"
ENCODINGS: dict[str, Encoding] = {
    "tree": Encoding(tree, frozenset(PREPARED)),
    "predicates": Encoding(predicates, frozenset(PREPARED)),
    "sentence": Encoding(sentence, frozenset(explain._WORDS)),
    "expression": Encoding(
        expression,
        frozenset((*guard_expressions._LEAVES, *guard_expressions._AMBIENT)),
        dict.fromkeys(
            (
                K.NOT_IN_GENERIC_DICT, K.TUPLE_ITERATOR_LEN, K.RANGE_ITERATOR_MATCH, K.TENSOR_SUBCLASS_METADATA_MATCH,
                K.DEFAULT_DEVICE, K.TRANSFORMS, K.SAVED_TENSORS_HOOKS, K.SET_MEMBERS, K.SET_ORDER,
            ),
            BY_PREDICATE,
        ),
    ),
    "instructions": Encoding(
        instructions,
        frozenset((*guard_bytecode._LEAVES, *guard_bytecode._AMBIENT)),
        dict.fromkeys(
            (K.NAN_MATCH, K.TUPLE_ITERATOR_LEN, K.RANGE_ITERATOR_MATCH, K.TENSOR_SUBCLASS_METADATA_MATCH), SLOW_PATH
        ),
    ),
    "stored": Encoding(stored, frozenset(stored_guards._FORMS)),
}  # fmt: skip


def encode(check: FrameCheck, guards: tuple[Guard, ...], frame: Frame) -> dict[str, Accepts]:
    """Guards in each encoding that has a form for them."""
    made = {name: encoding.write(check, guards, frame) for name, encoding in ENCODINGS.items()}
    return {name: accepts for name, accepts in made.items() if accepts is not None}
