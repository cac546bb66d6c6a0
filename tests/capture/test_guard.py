"""Guards as data."""

import pytest

from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards, TensorFacts
from nbcompile.capture.source import LocalSource
from nbcompile.record.model import StackLine

K = LocalSource("k")
LINE = StackLine("cell.py", 3, "f", "return x * k")


def test_the_stack_is_no_part_of_a_guards_key():
    """A guard that two lines need is checked once."""
    guard = Guard(K, GuardKind.EQUALS_MATCH, 3)
    assert guard.key() == Guard(K, GuardKind.EQUALS_MATCH, 3, (LINE,)).key()
    assert guard.key() == Guard(K, GuardKind.EQUALS_MATCH, 3, members=(("a", "data"),)).key()


@pytest.mark.parametrize(
    "other",
    [
        Guard(K, GuardKind.EQUALS_MATCH, 3.0),
        Guard(K, GuardKind.EQUALS_MATCH, True),
        Guard(K, GuardKind.EQUALS_MATCH, 4),
        Guard(K, GuardKind.ID_MATCH, 3),
        Guard(LocalSource("j"), GuardKind.EQUALS_MATCH, 3),
        Guard(None, GuardKind.EQUALS_MATCH, 3),
    ],
)
def test_another_guard_has_another_key(other):
    """3, 3.0 and True are equal in Python, but are different expectations; so are another kind and another source."""
    assert Guard(K, GuardKind.EQUALS_MATCH, 1).key() != Guard(K, GuardKind.EQUALS_MATCH, True).key()
    assert Guard(K, GuardKind.EQUALS_MATCH, 3).key() != other.key()


def test_unhashable_values_are_distinguished_by_identity():
    """Two lists with equal items may differ at the next call, so each has its own guard."""
    first, second = [1], [1]
    assert Guard(K, GuardKind.ID_MATCH, first).key() == Guard(K, GuardKind.ID_MATCH, first).key()
    assert Guard(K, GuardKind.ID_MATCH, first).key() != Guard(K, GuardKind.ID_MATCH, second).key()


def test_shape_guards_are_compared_by_their_expressions():
    """The line and the note of an expression do not affect the comparison."""
    texts, sources = ("2 <= L['x'].size()[0]",), (LocalSource("x"),)
    assert ShapeGuards(texts, sources) == ShapeGuards(texts, sources, ((LINE,),), ("a note",))
    assert ShapeGuards(texts, sources) != ShapeGuards((*texts, "Ne(L['x'].size()[0], 7)"), sources)


def test_facts_of_tensors_are_values():
    """Facts with a symbolic size differ from those with a fixed one, and can be keys."""
    fixed, dynamic = TensorFacts((2, 3), (3, 1)), TensorFacts((None, 3), (3, 1))
    assert len({fixed, dynamic, TensorFacts((2, 3), (3, 1))}) == 2
