"""Operators on Python values: their results and their errors are eager mode's."""

from __future__ import annotations

import collections
import operator
from typing import NamedTuple

import pytest
import torch

import nbcompile
from tests.support.oracle import require_same_answer, tried

N = float("nan")
PROGRAMS = {
    "dicts with a NaN": lambda: [{1: N} == {1: N}, {1: N} != {1: N}, {1: N} == {1: float("nan")}],
    "ordered dicts with a NaN": lambda: collections.OrderedDict(a=N) == collections.OrderedDict(a=N),
    "slices with a NaN": lambda: [slice(N) == slice(N), slice(N, 1) != slice(N, 1)],
    "sequences with a NaN": lambda: [[N] <= [N], (N, 1) < (N, 2), [N] < [N], [N, 2] > [N, 1], [float("nan")] <= [N]],
    "a set and a list": lambda: {1} <= [1],
    "a set and a tuple": lambda: {1} > (1,),
    "a set and keys": lambda: [{1} <= {1: 2}.keys(), {1: 2}.keys() < {1, 2}, {(1, 2)} == {1: 2}.items()],
    "a set and values": lambda: {1} <= {1: 2}.values(),
    "values and a set": lambda: {1: 2}.values() <= {1},
    "values and values": lambda: [{1: 2}.values() == {1: 2}.values(), {1: 2}.values() != {1: 2}.values()],
    "values themselves": lambda: (lambda v: [v == v, v != v])({1: 2}.values()),
    "keys and keys": lambda: [{1: 2}.keys() == {1: 3}.keys(), {1: 2}.items() == {1: 3}.items()],
    "a NaN in a sequence": lambda: [
        N in [N],
        N in (N,),
        [N].index(N),
        (N,).count(N),
        float("nan") in [N],
        [1, N].index(N),
    ],
    "a NaN in a deque": lambda: (lambda d: [N in d, d.count(N), d.index(N), d == collections.deque([N])])(
        collections.deque([N])
    ),
    "deques in order": lambda: [
        collections.deque([N]) <= collections.deque([N]),
        collections.deque([1, 2]) < collections.deque([1, 3]),
    ],
    "a NaN is removed": lambda: (lambda xs: (xs.remove(N), xs))([1, N, 2]),
    "nested": lambda: [[(N,)] == [(N,)], {1: [N]} == {1: [N]}, ({1: N},) == ({1: N},), [slice(N)] == [slice(N)]],
    "ranges and dicts": lambda: [range(3) == range(0, 3, 1), {1: range(2)} == {1: range(2)}],
    "methods of sets": lambda: [{1}.union([2]), {1}.issubset([1]), {1}.__le__([1]), {1}.__or__([2])],
    "a dict and pairs": lambda: {1: 2} | [(3, 4)],
    "frozen sets": lambda: [frozenset([1]) < {1, 2}, frozenset([1]) == {1}],
}


def in_place(function):
    def program(x):
        s = {1, 2}
        alias = s
        s = function(s)
        return x + 1, s, alias, s is alias

    return program


def _or_list(s):
    s |= [3]
    return s


def _or_keys(s):
    s |= {3: 4}.keys()
    return s


def _or_set(s):
    s |= {3}
    return s


def _and_frozen(s):
    s &= frozenset([1])
    return s


def _minus_tuple(s):
    s -= (1,)
    return s


def _xor_items(s):
    s ^= {3: 4}.items()
    return s


def _minus_keys(s):
    s -= {1: 4}.keys()
    return s


@pytest.mark.parametrize(
    "function",
    [_or_list, _or_keys, _or_set, _and_frozen, _minus_tuple, _xor_items, _minus_keys],
    ids=lambda f: f.__name__,
)
def test_sets_in_place(function):
    """Only a set mutates a set in place: a view of a dict gives a new set, and a list raises an error."""
    program = in_place(function)
    x = torch.ones(2)
    expected, found = tried(program, x), tried(nbcompile.compile(program, backend="eager"), x)
    assert str(found) == str(expected)


class Two:
    """An object that Python accepts as an index."""

    def __index__(self) -> int:
        return 2


TWO = Two()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1, "ab" * TWO),
        lambda x: (x + 1, [1] * TWO),
        lambda x: (x + 1, TWO * (1,)),
        lambda x: (x + 1, collections.deque([1]) * TWO),
    ],
    ids=["str", "list", "tuple", "deque"],
)
def test_a_sequence_is_repeated_by_an_index(function):
    """``sequence * object`` calls the object's ``__index__``."""
    x = torch.ones(2)
    assert nbcompile.compile(function, fullgraph=True)(x)[1] == function(x)[1]


class Set(set):
    """A subclass of a built-in class, as are the classes below."""


class Frozen(frozenset):
    pass


class List(list):
    pass


class Tuple(tuple):  # noqa: SLOT001 - as programs have it
    pass


class Text(str):  # noqa: SLOT000 - as programs have it
    pass


class Dict(dict):
    pass


SET = Set([1, 3])

OPERANDS = {
    "set": {1, 2}, "frozenset": frozenset([2, 3]), "Set": Set([3, 1]), "Frozen": Frozen([4]), "list": [1],
    "List": List([2]), "tuple": (1,), "Tuple": Tuple([2]), "Text": Text("b"), "deque": collections.deque([1]), "two": 2,
    "Dict": Dict(a=1), "none": None, "range": range(2), "bytes": b"x",
}  # fmt: skip
MADE = {kind.__name__: kind for kind in (Set, Frozen, List, Tuple, Dict, set, frozenset, list, tuple)}


def _tried_here(operation):
    try:
        return operation()
    except (TypeError, ValueError) as error:
        return str(error)


def _operated(left, right):
    return [
        _tried_here(lambda: left | right), _tried_here(lambda: left & right), _tried_here(lambda: left - right),
        _tried_here(lambda: left ^ right), _tried_here(lambda: left + right), _tried_here(lambda: left * right),
        _tried_here(lambda: left <= right), _tried_here(lambda: right in left), left == right, left != right,
    ]  # fmt: skip


def _operated_in_place(kind, given, right):
    results = []
    for operation in (operator.ior, operator.iand, operator.isub, operator.ixor, operator.iadd, operator.imul):
        left = kind(given)
        result = _tried_here(lambda operation=operation, left=left: operation(left, right))
        results += [result, result is left, left]
    return results


def _told(values):
    return [(type(v), sorted(map(repr, v)) if isinstance(v, (set, frozenset)) else repr(v)) for v in values]


@pytest.mark.parametrize("right", OPERANDS)
@pytest.mark.parametrize("left", OPERANDS)
def test_operators_of_containers(left, right):
    """Values, their classes and the texts of errors are Python's, for arguments and for objects created inside."""

    def function(x, left_value, right_value):
        results = _operated(left_value, right_value)
        if left in MADE:
            kind = MADE[left]
            results += _operated(kind(left_value), right_value)
            results += _operated_in_place(kind, left_value, right_value)
        return x + 1, results

    nbcompile.reset()
    arguments = torch.ones(1), OPERANDS[left], OPERANDS[right]
    expected, found = function(*arguments), nbcompile.compile(function, backend="eager")(*arguments)
    assert _told(found[1]) == _told(expected[1])


def _set_in_place(x, s):
    alias, t = s, Set([5])
    s |= {9}
    t |= s
    t -= {1}
    return x + 1, [s, alias, s is alias, t]


def _methods_of_a_set(x, s):
    return x + 1, [s.union([7]), s.copy(), s.difference({1}), s.intersection({1}), s.symmetric_difference({1, 8})]


def _sets_by_name(x, s):
    return x + 1, [s.__or__({7}), s.__ior__({8}) is s, s, SET | s, SET & s, operator.or_(s, SET)]


def _returned(x, s):
    return x + 1, [Set([1, 2]), Set(s), {"a": Set("ab")}["a"]]


def _looked_up(x, s):
    found = {frozenset([1]), frozenset([2]), 3}
    answers = [{1} in found, Set([2]) in found, {3} in found, set() in frozenset([frozenset()])]
    found.discard({1})
    found.remove(Set([2]))
    return x + 1, [*answers, found]


@pytest.mark.parametrize("function", [_set_in_place, _methods_of_a_set, _sets_by_name, _returned, _looked_up])
def test_subclasses_of_set(function):
    """An operator returns a plain set, an in-place operator the same object; a set is looked up as a frozenset."""
    x = torch.ones(1)
    expected, given = function(x, Set([1, 3])), Set([1, 3])
    found = nbcompile.compile(function, backend="eager", fullgraph=True)(x, given)
    assert _told(found[1]) == _told(expected[1])


def test_a_set_that_is_not_there_cannot_be_removed():
    """The KeyError contains the set itself."""

    def program():
        try:
            {frozenset([1])}.remove({2})
        except KeyError as error:
            return error.args
        return None

    require_same_answer(program)


class Pair(NamedTuple):
    """A named tuple."""

    a: int
    b: int


class Multiplied(list):
    def __mul__(self, count):
        return ("multiplied", count)


class Rejecting(list):
    def __mul__(self, count):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented


class Reflected(list):
    def __rmul__(self, count):
        return ("reflected", count)

    def __radd__(self, other):
        return ("reflected", list(other))


class ReflectedDeque(collections.deque):
    def __rmul__(self, count):
        return ("reflected", count)


class OnTheRight:
    def __radd__(self, other):
        return ("right", list(other))

    def __rmul__(self, other):
        return ("right", list(other))

    def __repr__(self):
        return "OnTheRight()"


class WholeOnTheRight(int):
    def __rmul__(self, other):
        return ("right", list(other))


def added(x, left, right):
    before = left
    left += right
    return type(left), left, before, x + 1


def multiplied(x, left, right):
    before = left
    left *= right
    return type(left), left, before, x + 1


LEFT = (list, collections.deque, Multiplied, Rejecting, Reflected, ReflectedDeque)
RIGHT = {
    "+": (added, (OnTheRight(), [3], (3,), Reflected([4]), Multiplied([5]), 3)),
    "*": (multiplied, (OnTheRight(), 2, WholeOnTheRight(2), True, 2.5, "a", Reflected([3]))),
}


@pytest.mark.parametrize("cls", LEFT)
@pytest.mark.parametrize("symbol", RIGHT)
def test_who_answers_before_a_sequence_changes_in_place(symbol, cls):
    """User-defined methods for ``+`` and ``*`` answer in Python's order, in which number operators come first."""
    function, others = RIGHT[symbol]
    for right in others:
        nbcompile.reset()
        compiled = nbcompile.compile(function, backend="eager")
        expected, found = (tried(f, torch.ones(1), cls([1]), right) for f in (function, compiled))
        assert str(found) == str(expected), right


@pytest.mark.parametrize(
    "make", [list, tuple, torch.Size, collections.deque, lambda items: collections.deque(items, 3)]
)
def test_a_sequence_that_a_tensor_repeats_keeps_its_class(make):
    """The number is read from the tensor; a deque keeps its maximum length."""

    def repeated(x, count):
        values = make([1, 2])
        return values * count, count * values, x + 1

    compiled = nbcompile.compile(repeated, backend="eager")
    for number in (2, 3, 0):
        given = torch.ones(1), torch.tensor(number)
        assert str(compiled(*given)) == str(repeated(*given))
