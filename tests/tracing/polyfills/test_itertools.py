"""``itertools`` in traced code: its results and its errors are those of the real module."""

from __future__ import annotations

import itertools
import operator

import pytest

from nbcompile.tracing.polyfills import itertools as polyfills
from tests.support.answers import check

NAMES = {"it": itertools, "operator": operator}


def test_numbers_that_are_none():
    """Negative lengths, strings and floats; None is allowed only as a bound of a slice."""
    check(
        "list(it.repeat(1, 3))", "list(it.repeat(1, -1))", "list(it.repeat(1, None))", "list(it.repeat(1, 'a'))", "list(it.repeat(1, 1.5))",
        "list(it.repeat(object=1, times=2))", "list(it.repeat(times=2, object=1))", "list(it.repeat(1, times=2))", "list(it.repeat(item=1))",
        "list(it.product([1, 2], repeat=-1))", "list(it.islice(it.count('a'), 1))", "list(it.islice(it.count(True), 2))",
        "list(it.islice([1, 2, 3], 1, None))", "list(it.islice([1], -1))", "list(it.islice([1], 0, None, 0))", "list(it.islice([1], 'a'))",
        "list(it.islice([1]))", "list(it.islice([1], 1.0))", "list(it.combinations([1], -1))", "list(it.permutations([1], -1))",
        "list(it.permutations([1], 'a'))", "it.tee([1], -1)", "it.tee([1], 0)", **NAMES,
    )  # fmt: skip


def test_nothing_to_go_through():
    """No iterable, an empty one, or a value that is not iterable."""
    check(
        "list(it.product())", "list(it.product([], [1]))", "list(it.product(5))", "list(it.accumulate([]))", "list(it.chain())",
        "list(it.accumulate([], initial=5))", "list(it.zip_longest())", "list(it.zip_longest([1], 5))", "list(it.pairwise([1]))",
        "list(it.combinations([], 0))", "list(it.permutations([], 0))", "list(it.cycle([]))", "list(it.compress('abc', []))",
        "[k for k, g in it.groupby([])]", "list(it.chain([1], 5))", "list(it.combinations_with_replacement([], 1))", **NAMES,
    )  # fmt: skip


SAME = {
    "product": [("ab", [1, 2]), ("ab",), ()],
    "combinations": [("abc", 2), ("abc", 4), ("abc", 0)],
    "combinations_with_replacement": [("ab", 3), ("", 2)],
    "permutations": [("abc", 2), ("abc",), ("ab", 5)],
    "zip_longest": [("abc", [1]), ([], "ab")],
    "accumulate": [([1, 2, 3],), ([1, 2, 3], operator.mul), ("ab",)],
    "pairwise": [("abc",), ("a",)],
    "compress": [("abcd", [1, 0, "", "x"])],
    "takewhile": [(lambda x: x < 3, [1, 2, 5, 1])],
    "dropwhile": [(lambda x: x < 3, [1, 2, 5, 1])],
    "filterfalse": [(None, [0, 1, ""]), (lambda x: x % 2, range(5))],
    "starmap": [(pow, [(2, 3), (3, 2)])],
}


@pytest.mark.parametrize("name", SAME)
def test_a_polyfill_gives_what_the_real_one_gives(name):
    """A polyfill that runs as plain Python gives the same items in the same order."""
    for arguments in SAME[name]:
        assert list(getattr(polyfills, name)(*arguments)) == list(getattr(itertools, name)(*arguments))


def taken(name, source, steps, **keywords):
    """The number of items of an iterator that have been taken after each step."""
    counted = itertools.count()
    walk = getattr(source, name)((next(counted) for _ in range(10)), **keywords)
    walk = walk[0] if isinstance(walk, tuple) else walk
    found = []
    for _ in range(steps):
        next(walk)
        found.append(next(counted))
    return found


@pytest.mark.parametrize("name", ["accumulate", "pairwise", "cycle", "groupby", "tee"])
def test_no_more_is_taken_than_by_the_real_one(name):
    """Each step takes as many items as the real function, because an iterator may have side effects."""
    assert taken(name, polyfills, 3) == taken(name, itertools, 3)


def test_groups_end_with_the_next_one():
    """A group that was not read is skipped, and is empty afterwards."""
    for source in (polyfills, itertools):
        walk = source.groupby("aabbb")
        first, second = next(walk), next(walk)
        assert (list(first[1]), list(second[1])) == ([], ["b", "b", "b"])
