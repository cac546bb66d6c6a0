"""Caches that are filled without calls of their function equal those that calls have filled."""

from __future__ import annotations

import functools
import sys
import traceback

import pytest

from nbcompile.support import created_caches
from nbcompile.support.created_caches import fill_cache, is_created_cache, new_cache


def reject(*arguments: object) -> None:
    raise AssertionError(arguments)


def filled(function, maxsize, entries, hits, misses, typed=False):
    cache = new_cache(function, maxsize, typed, functools._CacheInfo)
    fill_cache(cache, entries, hits, misses)
    return cache


def test_entries_hits_and_misses_without_a_call():
    """A call with a cached key returns the very object; other calls reach the function."""
    result = [1]
    cache = filled(reject, None, [((1,), {}, result), ((2,), {"k": 3}, 4)], 5, 7)
    assert cache.cache_info() == (5, 7, None, 2)
    assert cache(1) is result
    assert cache(2, k=3) == 4
    with pytest.raises(AssertionError):
        cache(3)
    assert cache.cache_info() == (7, 8, None, 2)


def test_the_order_of_use():
    """The first entry is evicted first, whatever the counted hits."""
    cache = filled(lambda number: -number, 2, [((1,), {}, 10), ((2,), {}, 20)], 3, 2)
    cache(3)
    assert (cache(2), cache(1)) == (20, -1)


def test_fewer_misses_than_entries():
    """Calls that began before cache_clear() add their entries afterwards, so there may be fewer misses."""

    @functools.lru_cache
    def real(number):
        if number == 1:
            real.cache_clear()
        elif number > 1:
            real(number - 1)
        return number

    real(3)
    assert real.cache_info() == (0, 0, 128, 3)
    entries = [((number,), {}, number) for number in (1, 2, 3, 4)]
    cache = filled(reject, 4, entries, 2, 1)
    assert cache.cache_info() == (2, 1, 4, 4)
    assert [cache(number) for number in (1, 2, 3, 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("maxsize", [0, 3, None])
def test_misses_alone(maxsize):
    """Calls that raised, or a cache of size 0, have misses without entries."""
    assert filled(reject, maxsize, [], 0, 4).cache_info() == (0, 4, maxsize, 0)


def test_types_are_part_of_a_key():
    """1 and 1.0 are two entries of a typed cache."""
    cache = filled(reject, None, [((1,), {}, "int"), ((1.0,), {}, "float")], 0, 2, typed=True)
    assert (cache(1), cache(1.0)) == ("int", "float")


def test_a_function_that_is_a_partial():
    """A cached partial keeps its arguments, and its attributes."""
    cache = filled(functools.partial(int, base=2), None, [], 0, 0)
    assert cache("11") == 3


def test_no_line_in_a_traceback():
    """The traceback of the function's exception is that of a direct call."""

    def raises(number):
        raise ValueError(number)

    try:
        filled(raises, None, [], 0, 0)(1)
    except ValueError:
        names = [line.name for line in traceback.extract_tb(sys.exception().__traceback__)]
    assert names == ["test_no_line_in_a_traceback", "raises"]


def test_which_caches_are_recognised():
    """Caches that were filled here are recognised, and functions to which the library adds a cache."""

    def noted(number):
        return number

    assert not is_created_cache(functools.cache(noted))
    created_caches.note_creation({"user_function": noted})
    assert is_created_cache(functools.cache(noted))
    assert is_created_cache(filled(reject, None, [], 0, 0))
    assert not is_created_cache(noted)
    created_caches.note_creation({"maxsize": 3})
    created_caches.note_creation({"user_function": (1).bit_length})


def test_the_functions_of_the_library_that_create_caches():
    """``lru_cache`` itself and its decorator create caches; no other function does."""
    scope = vars(functools)
    assert created_caches.creates_cache(functools.lru_cache.__code__, scope)
    assert created_caches.creates_cache(functools.lru_cache(None).__code__, scope)
    assert not created_caches.creates_cache(functools.cache.__code__, scope)
    assert not created_caches.creates_cache(functools.lru_cache.__code__, {})
