"""Use counts of shared tuples in recipes."""

from __future__ import annotations

from nbcompile.capture.recipe import Build, Constant, SharedReference, SharedValue
from nbcompile.rewriting.use_counts import single_use_tuples


def shared(key: int, *parts, kind: str = "tuple", fill=()) -> SharedValue:
    """A value that a program may use several times."""
    return SharedValue(key, Build(kind, parts), fill)


def test_a_tuple_that_is_used_once_is_found():
    """A list is not found, because its identity matters."""
    assert single_use_tuples(shared(1), shared(2, kind="list")) == {1}


def test_a_second_use_counts():
    """A second use is the value itself or a reference to it, at any depth."""
    pair = shared(1, Constant(3))
    assert single_use_tuples(pair, Build("list", (SharedReference(1),))) == frozenset()
    assert single_use_tuples(pair, (pair,)) == frozenset()


def test_what_a_shared_value_holds_is_counted_once():
    """The second use of the outer tuple does not use the inner tuple again."""
    outer = shared(1, shared(2))
    assert single_use_tuples(outer, outer) == {2}


def test_a_tuple_that_contains_itself_is_no_single_use():
    """The tuple is filled after it is built, so it needs a name."""
    assert single_use_tuples(shared(1, fill=(Constant(0),))) == frozenset()
