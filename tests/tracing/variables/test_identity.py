"""Identity of values from outside: ``is``, and operations that compare identity before equality."""

from __future__ import annotations

import math
import weakref

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

NAN, OTHER = math.nan, float("nan")
COMPLEX = complex(NAN, 0)


def compared(x, a, b):
    return x * (2 if a is b else 3), a in [b], a in (b,), [a].count(b), [a] == [b], {a: 1} == {b: 1}, len({a, b})


def found(x, holder, key):
    return x * (2 if key in holder else 3), list(holder).count(key), len({*holder, key})


def looked_up(x, holder, key):
    return x * holder.get(key, 5), key in holder, [value for value in holder.values()]


def from_math(x, a, _):
    return x * (2 if a is math.nan else 3), a in [math.nan]


def is_same(x, a, b):
    return x * (2 if a is b else 3), a == b


PROGRAMS = [
    (compared, (NAN, NAN), (NAN, OTHER)),
    (compared, (COMPLEX, COMPLEX), (COMPLEX, complex(NAN, 0))),
    (found, ([1.0, NAN], NAN), ([1.0, NAN], OTHER)),
    (found, ((1.0, NAN), NAN), ((1.0, OTHER), NAN)),
    (found, ({NAN}, NAN), ({NAN}, OTHER)),
    (found, (frozenset([NAN]), NAN), (frozenset([OTHER]), NAN)),
    (looked_up, ({NAN: 2}, NAN), ({NAN: 2}, OTHER)),
    (looked_up, ({1: 4, NAN: 2}, NAN), ({1: 4, OTHER: 2}, NAN)),
    (from_math, (NAN, 0), (OTHER, 0)),
    (is_same, (10**20, 10**20), (10**20, int("1" + "0" * 20))),
    (is_same, ("a b", "a b"), ("a b", " ".join(["a", "b"]))),
    (is_same, (1.5, 1.5), (1.5, float("1.5"))),
]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(("function", "first", "second"), PROGRAMS)
def test_values_that_are_equal_and_two_objects(function, first, second, turn):
    """Calls with two distinct objects, after and before calls with identical ones."""
    one = first[0]
    calls = [(one, one) if first[0] == first[1] and function is is_same else first, second, first][::turn]
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    for arguments in calls:
        assert str(compiled(torch.ones(1), *arguments)) == str(function(torch.ones(1), *arguments))


def test_a_new_nan_at_each_call_is_no_new_program():
    """A NaN that is not compared needs no guard on its identity."""
    counts = Graphs()

    compiled = nbcompile.compile(lambda x, a, b: torch.where(x > 0, a, b), backend=counts)
    for _ in range(3):
        compiled(torch.ones(1), float("nan"), float("nan"))
    assert len(counts) == 1


class Hashed:
    """Objects with the hash of their identity, of their fields, or of another object."""

    def method(self): ...


class ByField(Hashed):
    def __init__(self, field):
        self.field = field

    def __hash__(self):
        return hash((self.field, 1))

    def __eq__(self, other):
        return self.field is other.field


class ByMethodInC(Hashed):
    def __hash__(self):
        return object.__hash__(self)


class Invalid(Hashed):
    def __hash__(self):
        return "a"  # noqa: PLE0309 - the error is the test


OUTSIDE = Hashed()


def nested():
    def inner(): ...

    return inner


HASHED = {
    "an object": lambda x: OUTSIDE,
    "a new object": lambda x: Hashed(),
    "an input": lambda x: x,
    "a result": lambda x: x * 2,
    "a method": lambda x: OUTSIDE.method,
    "a method of a new object's class": lambda x: Hashed.method,
    "a function": lambda x: nested(),
    "a tuple": lambda x: (1, OUTSIDE),
    "a tuple of constants and classes": lambda x: (1, (Hashed, "a")),
    "a tuple of a tensor": lambda x: ((x,), 2),
    "a frozenset": lambda x: frozenset([OUTSIDE]),
    "a field": lambda x: ByField(OUTSIDE),
    "a field that is a tensor": lambda x: ByField(x),
    "a constant field": lambda x: ByField(3),
    "a method in C": lambda x: ByMethodInC(),
    "a weak reference": lambda x: weakref.ref(OUTSIDE),
    "a size": lambda x: x.shape,
}


@pytest.mark.parametrize("value_of", HASHED.values(), ids=HASHED)
def test_hashes_are_those_of_the_returned_values(value_of):
    """``hash`` of a value is its hash in Python, also where the value has another key while tracing."""

    def both(x):
        y = x + 1
        value = value_of(x)
        return y, value, hash(value), value.__hash__()

    for _ in range(2):
        _, value, *hashes = nbcompile.compile(both, backend="eager")(torch.ones(2))
        assert hashes == [hash(value)] * 2


def test_hashes_of_another_object():
    """The hash of an object from outside is that of the object in each call, without a recompilation."""
    graphs = Graphs()
    compiled = nbcompile.compile(
        lambda x, value: (x + 1, hash(value), value.__hash__()), backend=graphs, fullgraph=True
    )
    for value in (Hashed(), Hashed()):
        assert compiled(torch.ones(2), value)[1:] == (hash(value), hash(value))
    assert len(graphs) == 1


def test_hashes_of_one_object_are_equal():
    """Two hashes of one object are equal while tracing; those of two objects are compared after a break."""
    compiled = nbcompile.compile(lambda x, a, b: x + (1 if hash(a) == hash(b) else 2), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), OUTSIDE, OUTSIDE).item() == 2
    broken = nbcompile.compile(lambda x, a, b: x + (1 if hash(a) == hash(b) else 2), backend="eager")
    assert broken(torch.ones(1), Hashed(), OUTSIDE).item() == 3


def test_invalid_hashes_raise():
    """A ``__hash__`` that returns no integer raises Python's error."""

    def caught(x):
        try:
            return x + hash(Invalid())
        except TypeError as error:
            return x, str(error)

    assert nbcompile.compile(caught, backend="eager")(torch.ones(1))[1] == caught(torch.ones(1))[1]


def test_keys_whose_hash_is_an_address():
    """A dict finds a key whose ``__hash__`` depends on an address that exists only after the graph."""

    def found(x):
        keys = ByField(x), ByMethodInC(), ByField(Hashed())
        table = {key: index for index, key in enumerate(keys)}
        return x + table[keys[0]] + table[keys[1]] * 10 + table[keys[2]] * 100, ByField(x) in table, len(table)

    result = nbcompile.compile(found, backend="eager", fullgraph=True)(torch.zeros(1))
    assert (result[0].item(), *result[1:]) == (210, True, 3)
