"""Identity of values from outside: ``is``, and operations that compare identity before equality."""

from __future__ import annotations

import math

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
