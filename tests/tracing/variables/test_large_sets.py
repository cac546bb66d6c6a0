"""Sets of many constants have one guard on their members, and one on their order if the program reads it."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.dispatch import cache
from nbcompile.guarding.encodings import table


class Unequal(int):
    """A number whose ``__eq__`` raises an error."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        raise ValueError


def members(x, values):
    return x * (2 if 3 in values else 4), 19.0 in values, len(values)


def ordered(x, values):
    return x * len(values), list(values), sum(type(value) is int for value in values)


def changed(x, values):
    values.add(3)
    return x * len(values), sorted(values, key=repr)[:3]


NUMBERS = list(range(100, 120))
SETS = [
    lambda: set(range(20)), lambda: set(range(1, 21)), lambda: {*range(19), 19.0}, lambda: {*range(2, 20), True, False},
    lambda: frozenset(range(20)), lambda: {*map(str, range(20))}, lambda: {*range(10), *map(str, range(10)), None},
    lambda: {8, 0, *NUMBERS}, lambda: {0, 8, *NUMBERS}, lambda: set([*reversed(NUMBERS), 8, 0]), lambda: {*range(1, 20), -1},
]  # fmt: skip


@pytest.mark.parametrize("function", [members, ordered, changed])
@pytest.mark.parametrize("turn", [1, -1])
def test_one_set_after_another(function, turn):
    """Sets with other members, other types of equal members, another class or order give eager mode's results."""
    sets = [make for make in SETS if function is not changed or isinstance(make(), set)][::turn]
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    with nbcompile.config.patch(recompile_limit=len(SETS)):
        for make in [*sets, *sets]:
            assert repr(compiled(torch.ones(1), make())) == repr(function(torch.ones(1), make()))


def test_one_guard_does_not_compare_a_users_members():
    """The guard compares the types of the members first."""
    guard = Guard(LocalSource("s"), GuardKind.SET_MEMBERS, frozenset(range(20)))
    holds = table.leaf(guard, "s", set(range(20))).holds
    assert holds(set(range(20)))
    assert not holds({*range(1, 20), Unequal(0)})


@pytest.mark.parametrize(("function", "kind"), [(members, GuardKind.SET_MEMBERS), (ordered, GuardKind.SET_ORDER)])
def test_there_is_one_guard(function, kind):
    """The number of guards does not depend on the number of members."""
    nbcompile.reset()
    nbcompile.compile(function, backend="eager")(torch.ones(1), set(range(1000)))
    (entry,) = [entry for code in cache.known_codes() for entry in cache.entries(code)]
    kinds = [guard.kind for guard in entry.check.guards]
    assert kinds.count(kind) == 1
    assert GuardKind.SET_CONTAINS not in kinds
