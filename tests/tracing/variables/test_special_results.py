"""Tests of nbcompile/tracing/variables/special_results.py: results of special methods that Python rejects or converts."""

from __future__ import annotations

import operator
import warnings

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


class Whole(int):  # an int with an ``__index__`` that nothing calls
    def __index__(self):
        return 1


class Text(str):
    __slots__ = ()


class Index:
    def __index__(self):
        return 4


VALUES = [-1, 2.5, "a", True, None, 3, 10**30, Whole(7), [1], Text("q"), b"b", Index(), 1j, NotImplemented]


def owner(method, value):
    """An object whose special method returns a value."""
    return type("Owner", (), {method: lambda self: value})()


CALLS = {
    "__len__": [
        "len(v)",
        "bool(v)",
        "1 if v else 2",
        "not v",
        "v and 1",
        "operator.length_hint(v)",
        "operator.length_hint(v, None)",
    ],
    "__bool__": ["bool(v)", "1 if v else 2", "not v", "v or 3", "any([v])", "list(filter(None, [v])) == [v]"],
    "__int__": ["int(v)", "type(int(v)).__name__"],
    "__float__": ["float(v)", "type(float(v)).__name__"],
    "__complex__": ["complex(v)"],
    "__bytes__": ["bytes(v)"],
    "__length_hint__": ["operator.length_hint(v)", "operator.length_hint(v, 2)", "operator.length_hint(v, 'a')"],
    "__index__": [
        "operator.index(v)",
        "int(v)",
        "float(v), type(float(v)).__name__",
        "[1, 2, 3, 4, 5][v] if operator.index(v) < 100 else 0",
        "[1, 2, 3, 4, 5][v:]",
        "range(3, v)",
    ],
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("method", CALLS)
def test_results_of_special_methods(method):
    """Each built-in function rejects or converts the result of its special method as in Python, with Python's error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # __int__ may not return a subclass of int for long
        for value in VALUES:
            check(*CALLS[method], v=owner(method, value), operator=operator)


class OfClass(type):
    """A metaclass that says how long its classes are."""

    def __len__(cls):
        return cls.length


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("length", [0, 3, -1, "a"])
def test_results_of_a_metaclass(length):
    """``__len__`` of a metaclass decides about the truth of its classes, too."""
    cls = OfClass("Sized", (), {"length": length})
    check("len(cls)", "bool(cls)", "not cls", "1 if cls else 2", cls=cls)


@pytest.mark.usefixtures("nothing_compiled")
def test_a_length_that_is_a_symbol():
    """A length that the method takes from a tensor's sizes stays symbolic."""

    class Rows:
        def __init__(self, tensor):
            self.tensor = tensor

        def __len__(self):
            return self.tensor.shape[0]

    def program(x, rows):
        return x.sum() * len(rows)

    graphs = Graphs()
    compiled = nbcompile.compile(program, backend=graphs, dynamic=True, fullgraph=True)
    for size in (3, 5):
        x = torch.ones(size)
        assert compiled(x, Rows(x)) == program(x, Rows(x))
    assert len(graphs) == 1


@pytest.mark.usefixtures("nothing_compiled")
def test_special_methods_that_are_none():
    """A special method that is None forbids the operation, or is called, with Python's error."""
    names = ["__len__", "__bool__", "__getitem__", "__call__", "__contains__", "__iter__", "__reversed__", "__hash__"]
    objects = {name.strip("_"): type("Forbidden", (), {name: None})() for name in names}
    check(
        "len(len_)", "bool(bool_)", "1 if bool_ else 2", "getitem[1]", "call(1)", "1 in contains", "list(iter_)",
        "1 in iter_", "reversed(reversed_)", "hash(hash_)", "{hash_: 1}", "[*iter_]", "bool(len_)",
        **{name: value for name, value in objects.items() if name in ("getitem", "call", "contains")},
        **{f"{name}_": value for name, value in objects.items()},
    )  # fmt: skip
