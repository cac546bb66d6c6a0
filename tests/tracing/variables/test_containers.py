"""Methods of built-in containers called by name, and with operands of subclasses."""

from __future__ import annotations

import collections

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Other(set):
    """A set whose ``__iter__`` yields other items than the set has."""

    def __iter__(self):
        return iter([99])


class Many(list):
    """A subclass of list."""


class Unordered(set):
    """A subclass of set."""


class Table(dict):
    """A subclass of dict."""


class Line(collections.deque):
    """A subclass of deque."""


def _told(value):
    if type(value) in (list, tuple):
        return [_told(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, value.copy() if type(value) in (set, frozenset) else value.union()))
    return type(value), repr(value)


def require_same(function, *arguments):
    """Compiled code gives eager mode's result, in one graph."""
    nbcompile.reset()
    expected = _told(function(*[type(item)(item) for item in arguments]))

    def program(x, *arguments):
        return x + 1, function(*arguments)

    compiled = nbcompile.compile(program, backend="eager", fullgraph=True)
    assert _told(compiled(torch.ones(1), *arguments)[1]) == expected


def _joined(s):
    return [{1}.union(s), {1} | s, {1, 99}.intersection(s), {1, 99}.difference(s), {1, 99}.symmetric_difference(s)]


def _asked(s):
    return [{1}.issubset(s), {1, 99}.issuperset(s), {99}.isdisjoint(s), {1} <= s, {1, 2} == s]


def _updated(s):
    a, b, c, d = {1}, {1, 99}, {1, 99}, {1, 99}
    a.update(s)
    b.intersection_update(s)
    c.difference_update(s)
    d.symmetric_difference_update(s)
    return [a, b, c, d, set(s), frozenset(s), Unordered(s), list(s), tuple(s)]


class Odd(list):
    """A list whose ``__iter__`` yields other items than the list has."""

    def __iter__(self):
        return iter([99])


class OddLine(collections.deque):
    """A deque whose ``__iter__`` yields other items than the deque has."""

    def __iter__(self):
        return iter([99])


@pytest.mark.parametrize("value", [Odd([1, 2]), OddLine([1, 2])])
def test_an_object_from_outside_has_the_items_in_it(value):
    """Items are read from the object directly; only ``list`` calls its ``__iter__``."""

    def function(x, value):
        return x + 1, value[0], value[1], len(value), list(value)

    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), value)[1:] == (1, 2, 2, [99])


@pytest.mark.parametrize("function", [_joined, _asked, _updated])
@pytest.mark.parametrize("inside", [False, True])
def test_a_set_takes_the_items_of_another_directly(function, inside):
    """Set operations do not call ``__iter__`` of a subclass; loops, ``list`` and ``tuple`` do."""
    if inside:
        require_same(lambda: function(Other([1, 2])))
    else:
        require_same(function, Other([1, 2]))


def test_a_set_from_outside_is_guarded_by_what_is_in_it():
    """Other items are another set, also if the class defines ``__iter__``."""

    def function(x, s):
        return x + 1, {5} | s

    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    for items in ([1, 2], [1, 3], [1, 2.0]):
        assert _told(compiled(torch.ones(1), Other(items))[1]) == _told({5, *items})


def _again(value):
    alias = value
    answer = value.__init__([(5, 6)])
    return [answer, value, alias is value, len(value)]


def _again_without_items(value):
    return [value.__init__(), value]


def _again_with_itself(value):
    return [value.__init__(value), value]


@pytest.mark.parametrize("function", [_again, _again_without_items, _again_with_itself])
@pytest.mark.parametrize("cls", [Many, Unordered, Table, Line, list, set, dict, collections.deque])
@pytest.mark.parametrize("inside", [False, True])
def test_a_second_initialization_begins_with_none_of_the_items(function, cls, inside):
    """``__init__`` replaces the items of a list, set or deque, and updates a dict."""
    if inside:
        require_same(lambda: function(cls([(1, 2)])))
    else:
        require_same(function, cls([(1, 2)]))


def test_the_caller_sees_the_second_initialization():
    """An object from outside has its new items after the call."""

    def function(x, given, items):
        for value in given:
            value.__init__(items)
        return x + 1

    given = [Many([1]), Unordered([1]), [1], {1}]
    nbcompile.compile(function, backend="eager", fullgraph=True)(torch.ones(1), given, [5])
    assert given == [[5], {5}, [5], {5}]


def test_a_frozen_set_keeps_its_items():
    """``__init__`` of a frozenset is that of ``object``, and changes nothing."""
    require_same(lambda: (lambda f: [f.__init__([5]), f])(frozenset([1])))


NAMED = {
    "or of sets": lambda: [{1}.__or__([1]), {1}.__or__({2}), {1}.__ior__([1]), {1}.__sub__({}), {1}.__xor__(None)],
    "or of a subclass": lambda: [Unordered([1]).__or__([1]), Unordered([1]).__ior__((1,)), {1}.__or__(Unordered([2]))],
    "or of frozen sets": lambda: [frozenset([1]).__or__([1]), frozenset([1]).__and__({1}), frozenset().__sub__(3)],
    "sets and keys": lambda: [{1}.__or__({2: 3}.keys()), {1}.__le__({1: 2}.keys()), {1}.__eq__({1: 2}.keys())],
    "sets in order": lambda: [{1}.__le__([1]), {1}.__le__({1}), {1}.__gt__(frozenset()), {1}.__ne__([1])],
    "sequences in order": lambda: [[1].__le__((1,)), [1].__le__([1]), (1,).__lt__([1]), (1,).__lt__((2,)), [1].__gt__(2)],
    "equality": lambda: [(1,).__eq__([1]), (1,).__eq__((1,)), [1].__eq__(None), [1].__ne__("a"), {}.__eq__([]), {}.__eq__({})],
    "subclasses": lambda: [[1].__eq__(Many([1])), Many([1]).__eq__([1]), Many([1]).__le__((1,)), {}.__eq__(Table())],
    "dicts": lambda: [{}.__or__([]), {}.__or__({1: 2}), {}.__lt__({}), Table().__or__(3), Table(a=1).__ior__([("b", 2)])],
    "dicts in C": lambda: [
        collections.OrderedDict(a=1).__or__([]),
        collections.OrderedDict(a=1).__eq__([]),
        collections.OrderedDict(a=1).__or__({"b": 2}),
        collections.defaultdict(list).__or__([]),
        collections.defaultdict(list).__eq__(3),
    ],
    "deques": lambda: [
        collections.deque([1]).__eq__([1]),
        collections.deque([1]).__le__(collections.deque([1])),
        collections.deque([1]).__lt__(None),
        Line([1]).__eq__([1]),
    ],
    "views": lambda: [{1: 2}.keys().__eq__([1]), {1: 2}.keys().__le__([1]), {1: 2}.keys().__le__({1}), {1: 2}.items().__ge__(2)],
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_an_operator_method_by_name_leaves_the_answer_to_the_other_operand(name):
    """The method returns ``NotImplemented`` where Python's does."""
    require_same(NAMED[name])


KEPT = {
    "frozen sets": lambda n: (lambda f, s: [frozenset(f) is f, frozenset(s) is s, frozenset(s)])(frozenset([n]), {n}),
    "tuples": lambda n: (lambda t: [tuple(t) is t, tuple([n]) is t, t[:] is t])((n, 2)),
    "strings": lambda n: (lambda s, b: [str(s) is s, bytes(b) is b, s[:] is s])("ab" * n, b"ab" * n),
    "numbers": lambda n: (lambda f: [float(f) is f, int(n) is n, bool(True) is True])(n + 0.5),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_that_never_changes_is_not_copied(name):
    """A copy of an immutable value is the object itself."""
    require_same(KEPT[name], 3)


@pytest.mark.parametrize("cls", [list, tuple, set, collections.deque, dict])
def test_a_container_that_counts_in_its_own_way(cls):
    """The number of items is guarded, although ``__len__`` of the class returns the same number."""

    class Three(cls):
        def __len__(self):
            return 3

    def used(x, values):
        return x + len(values), sorted(map(str, values)), bool(values)

    compiled = nbcompile.compile(used, backend="eager")
    for items in ([1], [1, 2], [], [1, 2, 3, 4]):
        values = Three(dict.fromkeys(items)) if cls is dict else Three(items)
        assert str(compiled(torch.ones(1), values)) == str(used(torch.ones(1), values))


NAMES = {
    "OrderedDict": collections.OrderedDict,
    "deque": collections.deque,
    "Default": collections.defaultdict,
    "size": torch.Size([2, 3]),
}


def test_wrong_numbers_of_arguments_and_keywords():
    """A method in C rejects arguments and keywords that it does not take; what the tracker's own method takes is no rule."""
    check(
        "{1: 2}.popitem(1)", "Default(list, {1: 2}).popitem(None)", "OrderedDict({1: 2, 3: 4}).popitem(False)",
        "OrderedDict({1: 2, 3: 4}).popitem(last=False)", "{1: 2}.get(key=1)", "{1: 2}.pop(key=1)", "{1: 2}.pop(1, default=2)",
        "OrderedDict({1: 2}).pop(key=1)", "OrderedDict({1: 2}).pop(5, default=7)", "OrderedDict({1: 2}).setdefault(5, default=7)",
        "{1: 2}.setdefault(key=1)", "{1, 2}.union(other={3})", "{1, 2}.difference(z=1)", "[1].append(object=1)",
        "[1].index(value=1)", "[2, 1].sort(key=None, reverse=True)", "[1].sort(1)", "(1,).count(value=1)", "deque([1]).append(x=1)",
        "{1: 2}.fromkeys('ab', 1)", "{1: 2}.fromkeys()", "{1: 2}.fromkeys(1, 2, 3)", "d = {}\nd.update(self=1, other=2)\nreturn d",
        "{1: 2}.clear(1)", "Default(list).clear(1)", "{1: 2}.copy(1)", "[1].pop(0, 1)", "{1}.pop(1)", "{1}.add()", "{1}.add(1, 2)",
        "[1].__add__()", "[1].__eq__(1, 2)", "[1].__mul__(2, z=1)", "{1: 2}.__eq__(1, z=2)", "size.numel(1)", "size.numel()",
        "range(5).count(1, z=2)", "range(5).index(value=1)", "range(5).index()", **NAMES,
    )  # fmt: skip


def test_wrong_arguments_of_an_explicit_init_have_the_errors_of_python():
    """``__init__`` of a built-in class in C accepts any arguments by its signature, and rejects them when it runs."""
    check(
        "{}.__init__(1, 2)", "[].__init__(1, 2)", "set().__init__(1, 2)", "deque().__init__(1, 2, 3)",
        "OrderedDict().__init__(1, 2)", "defaultdict(int).__init__(int, 1, 2)", "dict.__init__({}, 1, 2)",
        "[].__init__(a=1)", "set().__init__(a=1)", "deque([1]).__init__(a=1)", "d = {1: 2}\nreturn d.__init__([(3, 4)], a=5), d",
        "d = [1]\nreturn d.__init__((2, 3)), d", deque=collections.deque, OrderedDict=collections.OrderedDict,
        defaultdict=collections.defaultdict,
    )  # fmt: skip
