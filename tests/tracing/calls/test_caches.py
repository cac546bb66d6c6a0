"""``functools.lru_cache`` called by the program: the arguments that it takes and those that it rejects."""

from __future__ import annotations

import functools

import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


def test_what_is_no_function_and_what_is_no_size():
    """An argument that is not a function, and a size that is not an int, raise errors with Python's text."""
    check(
        "functools.cache(3)", "functools.lru_cache(maxsize='a')(len)", "functools.lru_cache(maxsize=1.5)(len)",
        "functools._lru_cache_wrapper(3, None, False, None)", "functools._lru_cache_wrapper(len, 'a', False, None)",
        "functools._lru_cache_wrapper(len, 1.5, False, None)", functools=functools,
    )  # fmt: skip


def test_sizes():
    """The maximum size may be None, a bool, zero or negative; ``cache_parameters`` returns the given values."""
    text = """
    g = functools.lru_cache(maxsize={})(lambda number: number)
    g(1), g(1), g(2), g(1)
    return g.cache_info(), tuple(g.cache_info()), g.cache_parameters()
    """
    check(*map(text.format, ("None", "True", "0", "-3", "1", "2")), functools=functools)


def test_the_class_called_by_keywords():
    """A call with keywords is left to Python, because the library itself passes positional arguments."""

    def program(x):
        g = functools._lru_cache_wrapper(
            user_function=lambda number: x + number, maxsize=None, typed=False, cache_info_type=functools._CacheInfo
        )
        return g(1), g(1), g.cache_info()

    graphs = Graphs()
    first, second, info = nbcompile.compile(program, backend=graphs)(torch.ones(2))
    assert first is second
    assert info == (1, 1, None, 1)
