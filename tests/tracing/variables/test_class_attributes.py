"""Attributes of a class are guarded, whichever way the program reaches the class.

    type(self).made += 1    in a constructor: the next call reads what this one stored
    B.__mro__[1].made       a class without an address is stored, and its attributes are guarded

In torch: test/dynamo/test_misc.py. Read next: tests/tracing/test_guard_completeness.py
"""

import dataclasses
from typing import NamedTuple

import pytest
import torch

import nbcompile

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def inherited():
    class A:
        made = 0

    class B(A):
        def __init__(self):
            type(self).made += 0

    def count(x):
        B()
        B.made += 1
        return x + B.made

    return count


@program
def by_type_of_self():
    class B:
        made = 0

        def __init__(self):
            type(self).made += 1

    return lambda x: x + B().made


@program
def by_class_of_self():
    class B:
        made = 0

        def __init__(self):
            self.__class__.made += 1

    def count(x):
        B()
        return x + B.made

    return count


@program
def by_the_method_order():
    class A:
        made = 0

    class B(A):
        pass

    def count(x):
        B.__mro__[1].made += 1
        return x + B.made

    return count


@program
def by_the_metaclass():
    class Meta(type):
        made = 0

    class B(metaclass=Meta):
        pass

    def count(x):
        type(B).made += 1
        return x + Meta.made

    return count


@program
def of_an_exception():
    class Failed(Exception):
        made = 0

        def __init__(self):
            type(self).made += 1

    def count(x):
        try:
            raise Failed
        except Failed as error:
            return x + error.made + type(error).made

    return count


@program
def of_a_list():
    class Items(list):
        made = 0

        def __init__(self):
            type(self).made += 1

    return lambda x: x + type(Items()).made


@program
def of_a_module():
    class Net(torch.nn.Module):
        made = 0

        def __init__(self):
            super().__init__()
            type(self).made += 1

    return lambda x: x + Net().made


@program
def of_a_dataclass():
    class A:
        made = 0

    @dataclasses.dataclass
    class B(A):
        step: int = 1

        def __post_init__(self):
            type(self).made += self.step

    return lambda x: x + B(2).made


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_what_one_call_stored_is_read_by_the_next(make):
    """Three calls count as in eager mode."""
    x = torch.zeros(1)
    eager, compiled = make(), nbcompile.compile(make())
    assert [compiled(x).item() for _ in range(3)] == [eager(x).item() for _ in range(3)]


class Meta(type):
    @property
    def four(cls):
        return 4

    def five(cls):
        return 5


def classes():
    """A new class, its subclass and a named tuple for each test."""

    class A(metaclass=Meta):
        k = 1

        def method(self):
            return 2

        def read(self):
            return type(self).k

    class B(A):
        pass

    class Pair(NamedTuple):
        a: int

        def method(self):
            return self.a

    return A, B, Pair


READS = {
    "method through type()": (lambda x, A, B, Pair: x + type(B()).method(None), "B", "method", lambda self: 7),
    "value read by a method": (lambda x, A, B, Pair: x + B().read(), "B", "k", 7),
    "value of the base": (lambda x, A, B, Pair: x + B().read(), "A", "k", 7),
    "absent from a new object": (lambda x, A, B, Pair: x + getattr(B(), "z", 3), "B", "z", 7),
    "absent from the class": (lambda x, A, B, Pair: x + hasattr(type(B()), "z"), "A", "z", 7),
    "of the objects of a list": (lambda x, A, B, Pair: x + sum(type(each).k for each in [B()]), "A", "k", 7),
    "method of a named tuple": (lambda x, A, B, Pair: x + Pair(2).method(), "Pair", "method", lambda self: 7),
    "property of the metaclass": (lambda x, A, B, Pair: x + type(B()).four, "Meta", "four", property(lambda cls: 7)),
    "method of the metaclass": (lambda x, A, B, Pair: x + type(B()).five(), "Meta", "five", lambda cls: 7),
}


@pytest.mark.parametrize("name", READS)
def test_a_change_from_outside_is_seen(name, monkeypatch):
    """The second call gives eager mode's result after a change of the class."""
    function, owner, attribute, value = READS[name]
    nbcompile.reset()  # the tests share one code object, which has a recompile limit
    A, B, Pair = classes()
    compiled, x = nbcompile.compile(lambda x: function(x, A, B, Pair)), torch.zeros(1)
    assert compiled(x).item() == function(x, A, B, Pair).item()
    changed = {"A": A, "B": B, "Pair": Pair, "Meta": Meta}[owner]
    monkeypatch.setattr(changed, attribute, value, raising=False)
    assert compiled(x).item() == function(x, A, B, Pair).item() in (1, 7)


@pytest.fixture
def family():
    class Base:
        pass

    return Base, [type(name, (Base,), {"sides": len(name)}) for name in ("one", "three", "seven")]


def walked(x, base, kept):
    """All subclasses, found through a list that is mutated, besides another mutated list."""
    kept.append(len(kept))
    waiting, found = base.__subclasses__(), []
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        found.append(cls)
    return x + len(found), found


def changed_twice(x, base, kept):
    first = base.__subclasses__()
    first.append(int)
    second = base.__subclasses__()
    second.pop()
    return x + len(first), first, second, first is second


def compared(x, base, kept):
    return x + 1, base.__subclasses__() is base.__subclasses__(), base.__subclasses__() == base.__subclasses__()


def changed_after_a_break(x, base, kept):
    subclasses = base.__subclasses__()
    nbcompile.graph_break()
    subclasses.append(int)
    return x + len(subclasses), subclasses


@pytest.mark.filterwarnings("error::nbcompile.errors.InternalErrorWarning")
@pytest.mark.parametrize("function", [walked, changed_twice, compared, changed_after_a_break])
def test_subclasses_are_a_new_list_each_time(function, family):
    """The program may mutate a list of subclasses; each call returns a new list, with classes created later."""
    base, made = family
    compiled, x = nbcompile.compile(function), torch.zeros(1)
    for _ in range(3):
        assert compiled(x, base, [1]) == function(x, base, [1])
        made.append(type("later", (base,), {}))
