"""Keys and members whose class defines ``__hash__``."""

from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.keys import TracedKey
from tests.support.answers import check


class Hashing:
    """The part of a tracer that a key uses."""

    def __init__(self, number):
        self.number, self.asked = number, []

    def call_special(self, tracker, name, arguments):
        self.asked.append(name)
        return ConstantVariable(self.number)

    def equal(self, left, right):
        self.asked.append("__eq__")
        return left.value == right.value


def test_the_hash_is_asked_for_once():
    """A dict reads the hash several times; the traced method runs once, and its result is reduced as in Python."""
    tracer = Hashing(2**61 + 5)
    key = TracedKey(tracer, ConstantVariable(1))
    assert hash(key) == hash(key) == hash(2**61 + 5)
    assert tracer.asked == ["__hash__"]


def test_two_keys_are_equal_as_the_traced_method_says():
    """A key equals itself without a call of ``__eq__``, and never a key of another kind of tracker."""
    tracer = Hashing(1)
    first, second, other = (TracedKey(tracer, ConstantVariable(value)) for value in (1, 1, 2))
    assert first == TracedKey(tracer, first.tracker)
    assert tracer.asked == []
    assert first == second and first != other
    assert tracer.asked == ["__eq__", "__eq__"]
    assert first != ("tuple", 1)


class Point:
    def __init__(self, x):
        self.x = x

    def __hash__(self):
        return self.x % 3

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x


def test_such_objects_are_found():
    """A key is found by an equal object, also among others with the same hash."""
    check(
        "{Point(1): 'a', Point(4): 'b'}[Point(4)]",
        "len({Point(1), Point(4), Point(1)})",
        "{Point(1): 'a'}.get(Point(2), 'none')",
        "Point(1) in {1, 4}",
        Point=Point,
    )
