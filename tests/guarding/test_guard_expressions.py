"""Expression trees of guards, and the values that they read."""

from __future__ import annotations

import builtins

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.check import build_check
from nbcompile.guarding.guard_expressions import GuardExpressions

X, K = LocalSource("x"), GuardKind


def function(x=None):
    return x


def frame(x) -> Frame:
    return Frame(function.__code__, {"x": x}, {}, vars(builtins))


def trees_of(readings, value, *guards):
    check = build_check(guards, frame(value))
    return {item.guard.kind: readings.test(item, frame(value).scope()) for item in check.prepared}


def test_a_guard_that_a_tree_expresses_reads_the_value():
    """The page receives the number, so it can evaluate the guard for another one."""
    readings = GuardExpressions()
    tree = trees_of(readings, 3, Guard(X, K.EQUALS_MATCH, 3))[K.EQUALS_MATCH]
    assert readings.take(frame(3).scope())["L['x']"] == 3
    assert "L['x']" in str(tree) and "3" in str(tree)


def test_a_guard_without_a_tree_is_one_value():
    """The value is the result of the predicate; equal guards of two entries share one value."""
    readings = GuardExpressions()
    for _ in range(2):
        trees_of(readings, {1, 2}, Guard(X, K.SET_MEMBERS, frozenset({1, 2})))
    values = readings.take(frame({1, 2}).scope())
    assert list(values.values()).count(True) == 1
    assert readings.take(frame({1, 3}).scope()) == {name: not value for name, value in values.items()}
