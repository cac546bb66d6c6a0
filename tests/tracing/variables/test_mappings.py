"""Dicts and their views: their results and their errors are eager mode's."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs
from tests.support.oracle import require_same_answer, tried

N = float("nan")


def popped(x, d):
    try:
        d.popitem()
    except KeyError:
        return x + 1
    return x + 2


def test_an_empty_dict_that_is_asked_for_an_item_is_guarded():
    """A later call with a nonempty dict removes an item from it."""
    compiled = nbcompile.compile(popped, backend="eager")
    x = torch.ones(2)
    for cls in (dict, collections.OrderedDict):
        assert torch.equal(compiled(x, cls()), x + 1)
        full = cls({1: 2})
        assert torch.equal(compiled(x, full), x + 2)
        assert not full


def delete_missing():
    d = collections.defaultdict(list)
    del d["x"]
    return d


def delete_caught():
    d = collections.defaultdict(list)
    try:
        del d["x"]
    except KeyError as error:
        return len(d), str(error)


def restarted(*arguments, **named):
    """Call the ``__init__`` of an existing defaultdict: its first argument is the new default_factory."""
    d = collections.defaultdict(int, a=1)
    d.__init__(*arguments, **named)
    return d, d.default_factory


def update_by_name(**named):
    d = {}
    d.update(**named)
    return d


PROGRAMS = {
    "a missing key is deleted": delete_missing,
    "a missing key is deleted, and the error caught": delete_caught,
    "a NaN among values": lambda: [N in {1: N}.values(), float("nan") in {1: N}.values(), (1, N) in {1: N}.items()],
    "no pair among items": lambda: [1 in {1: 2}.items(), (1, 2) in {1: 2}.items(), (1, 3) in {1: 2}.items()],
    "an item of an empty ordered dict": lambda: collections.OrderedDict().popitem(),
    "an item of an empty dict": lambda: {}.popitem(),
    "the first item of an empty ordered dict": lambda: collections.OrderedDict().popitem(last=False),
    "names of parameters as keys": lambda: (dict(self=1, tracer=2), update_by_name(self=1, tracer=2, other=3)),
    "a default that is no function": lambda: collections.defaultdict(1),
    "a default that is None": lambda: collections.defaultdict(None, a=1)["a"],
    "a default that is replaced": lambda: [
        restarted(),
        restarted(list),
        restarted(list, [("b", 2)]),
        restarted(None, c=3),
    ],
    "an item of an empty default dict": lambda: collections.defaultdict(int).popitem(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_and_errors(name):
    """Values, and classes and texts of exceptions, are eager mode's."""
    require_same_answer(PROGRAMS[name])


ITEMS = {
    "equal to a number": lambda x: {"a": x}.items() == {"a": 1}.items(),
    "a part": lambda x: ({"a": x}.items() <= {"a": 1, "b": x}.items(), {"a": x}.items() < {"a": 1, "b": x}.items()),
    "a whole": lambda x: ({"a": x, "b": 2}.items() > {"a": 1}.items(), {"a": x}.items() >= {"a": 2}.items()),
    "lists": lambda x: ({"a": [x]}.items() == {"a": [x]}.items(), {"a": [1]}.items() == {"a": [2]}.items()),
    "with a set": lambda x: ({"a": 1}.items() == {("a", 1)}, {("a", 1), ("b", x)} > {"a": 1}.items()),
    "a set without a list": lambda x: {"a": [1]}.items() == {("a", 1)},
    "no number": lambda x: {"a": float("nan")}.items() == {"a": float("nan")}.items(),
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_of_dicts_are_compared_by_value(name):
    """Items are compared by value, not by hash: a tensor equals a number, and a list has no hash."""

    def function(x):
        return x + 1, ITEMS[name](x)

    x = torch.ones(1)
    expected, found = tried(function, x), tried(nbcompile.compile(function, backend="eager"), x)
    assert str(found) == str(expected)


class _Plain(dict):
    pass


class _Doubled(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 2


class _Defaults(collections.defaultdict):
    pass


class _DoubledItems(list):
    def __getitem__(self, index):
        return super().__getitem__(index) * 2


class _DoubledParts(tuple):
    __slots__ = ()

    def __getitem__(self, index):
        return super().__getitem__(index) * 2


def _plain(cls):
    return lambda number: cls(a=number, b=torch.full((2,), 3.0))


MAKERS = {
    "dict": _plain(_Doubled),
    "plain": _plain(_Plain),
    "ordered": _plain(type("Ordered", (collections.OrderedDict,), {"__getitem__": lambda self, key: 7})),
    "defaults": lambda number: _Defaults(list, a=number, b=torch.ones(2)),
}
READS = {
    "item": lambda d, x: d["b"] + x,
    "get": lambda d, x: (d.get("b") + x, d.get("a")),
    "values": lambda d, x: (list(d.values())[1] * x, list(d.items())[0]),
    "pop": lambda d, x: d.pop("b") - x,
    "copied": lambda d, x: (dict(d)["b"] + x, {**d}["a"]),
    "copy": lambda d, x: (type(d.copy()).__name__, d.copy()["b"] + x),
    "a copy returned": lambda d, x: (d.copy(), x + 1),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", READS)
def test_the_entries_of_a_subclass_are_read_without_its_methods(name, maker):
    """`get`, `values` and the class's traced `__getitem__` read the built-in entries directly."""
    compiled = nbcompile.compile(lambda d, x: READS[name](d, x), backend="eager")
    for number in (1, 2, 5):  # as a constant, then as a symbol
        given, expected = MAKERS[maker](number), MAKERS[maker](number)
        x = torch.ones(2)
        found, wanted = compiled(given, x), READS[name](expected, x)
        assert str(found) == str(wanted)
        assert type(found[0]) is type(wanted[0])
        assert str(given) == str(expected)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("cls", [_DoubledItems, _DoubledParts])
def test_the_items_of_a_subclass_are_read_without_its_methods(cls):
    """An iteration over a list or tuple does not call `__getitem__`; an index calls it once."""
    compiled = nbcompile.compile(lambda items, x: (list(items)[1] + x, items[1] + x, items[0]), backend="eager")
    for number in (1, 2, 5):
        items, x = cls([number, torch.full((2,), 3.0)]), torch.ones(2)
        assert str(compiled(items, x)) == str((torch.full((2,), 4.0), torch.full((2,), 7.0), number * 2))


class _Reversed(dict):
    def __iter__(self):
        return iter(sorted(super().__iter__(), reverse=True))

    def keys(self):
        return list(self)


@pytest.mark.usefixtures("nothing_compiled")
def test_the_keys_of_a_subclass_are_guarded_in_the_order_of_the_dict():
    """A dict whose class iterates in another order is one graph, and another order causes a recompile."""

    def f(x, d):
        for key in d:
            x = x * 2 + d[key]
        return x, list(d.values()), list(d.keys()), list(dict.keys(d)), len(d)

    graphs = Graphs()
    compiled = nbcompile.compile(f, backend=graphs)
    for given in ({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, {"a": 1.0, "b": 2.0, "c": 3.0}):
        expected, actual = f(torch.ones(2), _Reversed(given)), compiled(torch.ones(2), _Reversed(given))
        assert torch.equal(expected[0], actual[0])
        assert expected[1:] == actual[1:]
    assert len(graphs) == 3


def _moved():
    ordered = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
    ordered.move_to_end("a")
    return ordered


@pytest.mark.usefixtures("nothing_compiled")
def test_the_order_of_an_ordered_dict_is_guarded():
    """A key that was moved before the call causes a recompile, although ``dict.keys`` has the old order."""

    def f(x, d):
        for value in d.values():
            x = x * 2 + value
        return x, list(d), list(d.items())

    graphs = Graphs()
    compiled = nbcompile.compile(f, backend=graphs)
    for ordered in (collections.OrderedDict(a=1.0, b=2.0, c=3.0), _moved(), _moved()):
        expected, actual = f(torch.ones(2), ordered), compiled(torch.ones(2), ordered)
        assert torch.equal(expected[0], actual[0])
        assert expected[1:] == actual[1:]
    assert len(graphs) == 2


def _keys_after_a_move(x: torch.Tensor, d: Any) -> Any:
    d.move_to_end("a")
    return x + 1, list(dict.keys(d)), list(dict.items(d)), list(d)


@pytest.mark.parametrize("cls", [collections.OrderedDict, type("Sub", (collections.OrderedDict,), {})])
@pytest.mark.parametrize("is_new", [True, False])
def test_methods_of_dict_do_not_see_that_a_key_was_moved(cls: Any, is_new: bool) -> None:
    """``dict.keys(d)`` has the order of the insertions, also for an OrderedDict that is returned."""

    def function(x: torch.Tensor, d: Any) -> Any:
        mapping = cls(a=1, b=2) if is_new else d
        return _keys_after_a_move(x, mapping), mapping

    def called(function: Any) -> str:
        outside = cls(a=1, b=2)
        answer, mapping = function(torch.ones(2), outside)
        return str((answer, list(mapping), list(dict.keys(mapping)), list(dict.keys(outside)), list(outside)))

    assert called(nbcompile.compile(function, backend="eager")) == called(function)


class Counted:
    """A key that counts the calls of its ``__hash__``."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def __hash__(self) -> int:
        self.asked += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.number == other.number


@pytest.mark.parametrize("made", [
    "set(d)", "frozenset(d)", "dict(d)", "{**d}", "d.copy()", "set(set(d))", "{*d}", "set(d) | set(d)", "set().union(d)",
    "set(d).difference(d)", "set(d).symmetric_difference(d)", "set(d).intersection(d)", "set(d).issubset(d)",
    "set(d) <= set(d)", "set().update(d)", "{}.update(d)", "OrderedDict(d)", "d == d.copy()", "d | d", "dict(d.items())",
    "set(frozenset(d))", "defaultdict(int, d)", "d[k]", "d.get(k)", "d.setdefault(k, 1)", "d.pop(k)", "d.__delitem__(k)",
    "d.__setitem__(k, 1)", "k in d", "set(d.keys())",
])  # fmt: skip
def test_a_hash_is_asked_for_as_often_as_in_python(made: str) -> None:
    """A dict and a set store the hashes of their keys, and reuse those of another container."""
    scope = {"Counted": Counted, "OrderedDict": collections.OrderedDict, "defaultdict": collections.defaultdict}
    source = f"def f(x):\n    k = Counted(1)\n    d = {{k: 1}}\n    {made}\n    return x + k.asked\n"
    exec(source, scope)
    function: Any = scope["f"]
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.zeros(1)), function(torch.zeros(1)))


class Listed(dict):
    """A dict whose keys and items are other ones than those stored."""

    def __iter__(self):
        return iter(["b"])

    def keys(self):
        return ["b"]

    def __getitem__(self, key):
        return 5


class ListedInOrder(collections.OrderedDict):
    """The same of an OrderedDict."""

    __iter__, keys, __getitem__ = Listed.__iter__, Listed.keys, Listed.__getitem__


@pytest.mark.parametrize("cls", [Listed, ListedInOrder])
def test_a_copy_of_a_subclass_has_the_items_that_it_gives(cls):
    """``dict.copy`` asks ``keys`` and ``__getitem__`` of a class with an ``__iter__``; of an empty one it does not."""

    def copied(x, given):
        new = cls(a=1)
        rejected = ""
        try:
            given.copy(3)
        except TypeError as error:
            rejected = str(error)
        return x + 1, given.copy(), new.copy(), cls().copy(), dict.copy(given), type(new.copy()), rejected

    given = (torch.ones(2), cls(a=1))
    assert str(nbcompile.compile(copied, backend="eager")(*given)) == str(copied(*given))
