"""Views of dicts, and their iterators."""

from __future__ import annotations

import collections

import pytest
import torch

import nbcompile
from tests.tracing.variables.test_mappings import _moved, _Plain


class _Asking(dict):
    def __reversed__(self):
        return super().__reversed__()


@pytest.mark.parametrize("cls", [_Plain, _Asking, collections.Counter, collections.OrderedDict, dict])
def test_subclass_is_walked_backwards(cls):
    """``reversed`` and ``__reversed__`` of a subclass give the built-in iterator."""

    def function(x, d):
        return [(key, x * d[key]) for key in reversed(d)], list(d.__reversed__()), type(reversed(d)).__name__

    x, d = torch.ones(2), cls({"a": 1, "b": 2})
    found, expected = nbcompile.compile(function, fullgraph=True, backend="eager")(x, d), function(x, d)
    assert str(found) == str(expected)
    assert len(found[0]) == 2


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("method", ["keys", "values", "items", "__iter__", "__reversed__", "copy"])
def test_methods_of_dict_go_through_the_insertions_of_an_ordered_dict(method):
    """``dict.keys(d)`` of an OrderedDict has the order of the insertions, without later moves."""

    def f(x, d):
        return x + 1, list(getattr(dict, method)(d))

    for ordered in (collections.OrderedDict(a=1.0, b=2.0, c=3.0), _moved()):
        assert nbcompile.compile(f, backend="eager")(torch.ones(2), ordered)[1:] == f(torch.ones(2), ordered)[1:]


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items])
def test_a_key_that_is_inserted_again(view):
    """A deleted key that is inserted again is another entry: an iterator may raise "dictionary keys changed"."""

    def program(x, view, count):
        d, steps = dict.fromkeys(range(count), 0), 0
        try:
            for _ in view(d):
                steps += 1
                del d[count - 1]
                d[count - 1] = steps
        except RuntimeError as error:
            return x + 1, steps, str(error)
        return x + 1, steps, d

    def replaced(x, view, count):
        d, steps = dict.fromkeys(range(count), 0), []
        for item in view(d):
            d[count - 1] = 5
            steps.append(item)
        return x + 1, steps, d

    x = torch.ones(2)
    for count in (1, 2, 4):
        compiled = nbcompile.compile(program, backend="eager")
        assert str(compiled(x, view, count)) == str(program(x, view, count))
        compiled = nbcompile.compile(replaced, backend="eager", fullgraph=True)
        assert str(compiled(x, view, count)) == str(replaced(x, view, count))
