"""Iterators over lists that the program mutates after a graph break."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

KEPT = []


class Holder:
    pass


def by_a_closure(x):
    xs = [1, 2]
    it = iter(xs)
    next(it)

    def grow():
        xs.append(3)

    torch._dynamo.graph_break()
    grow()
    return x + sum(it)


def by_a_closure_in_a_list(x):
    xs = [1, 2]
    it = iter(xs)
    actions = [lambda: xs.append(3)]
    torch._dynamo.graph_break()
    actions[0]()
    return x + sum(it)


def by_an_attribute_of_a_new_object(x):
    holder = Holder()
    holder.xs = [1, 2]
    it = iter(holder.xs)
    torch._dynamo.graph_break()
    holder.xs.append(3)
    return x + sum(it)


def by_a_bound_method(x):
    xs = [1, 2]
    it = iter(xs)
    grow = xs.append
    torch._dynamo.graph_break()
    grow(3)
    return x + sum(it)


def by_a_partial(x):
    xs = [1, 2]
    it = iter(xs)
    grow = functools.partial(list.append, xs)
    torch._dynamo.graph_break()
    grow(3)
    return x + sum(it)


def by_a_generator(x):
    xs = [1, 2]
    it = iter(xs)
    growing = (xs.append(3) for _ in range(1))
    torch._dynamo.graph_break()
    list(growing)
    return x + sum(it)


def by_what_was_stored_outside(x):
    xs = [1, 2]
    it = iter(xs)
    KEPT.append(xs)
    torch._dynamo.graph_break()
    KEPT.pop().append(3)
    return x + sum(it)


def by_a_cell(x):
    xs = [1, 2]
    it = iter(xs)
    torch._dynamo.graph_break()
    xs.append(3)
    return x + sum(it) + (lambda: len(xs))()


@pytest.mark.parametrize(
    "function",
    [
        by_a_closure,
        by_a_closure_in_a_list,
        by_an_attribute_of_a_new_object,
        by_a_bound_method,
        by_a_partial,
        by_a_generator,
        by_what_was_stored_outside,
        by_a_cell,
    ],
    ids=lambda function: function.__name__,
)
def test_an_iterator_sees_what_is_added_after_a_break(function):
    """The iterator yields the new items, whichever way the program reaches the list."""
    x = torch.zeros(1)
    assert nbcompile.compile(function, backend="eager")(x).tolist() == function(x).tolist()


def test_an_unreachable_list_is_not_reconstructed():
    """A list without another reference cannot change: its iterator is passed as one of a tuple, which is compiled."""
    graphs = Graphs()

    def unnamed(x):
        it = iter([x, 2, 3])
        y = next(it) + 1
        torch._dynamo.graph_break()
        return y + sum(it)

    assert nbcompile.compile(unnamed, backend=graphs)(torch.zeros(1)).tolist() == [6]
    assert len(graphs) == 2


def ended_generator(x):
    ended = (each for each in [1, 2])
    first = sum(ended)
    torch._dynamo.graph_break()
    return x + first, list(ended)


def ended_early(x):
    def numbers():
        yield 1
        if x.dim():
            return
        yield 2

    ended = numbers()
    first = list(ended)
    torch._dynamo.graph_break()
    return x + first[0], next(ended, "end")


def ended_by_an_exception(x):
    def numbers():
        yield 1
        raise ValueError

    ended = numbers()
    first = next(ended)
    try:
        next(ended)
    except ValueError:
        first += 1
    torch._dynamo.graph_break()
    return x + first, next(ended, "end")


@pytest.mark.parametrize("function", [ended_generator, ended_early, ended_by_an_exception])
@pytest.mark.filterwarnings("error::nbcompile.errors.InternalErrorWarning")
def test_a_generator_at_its_end_needs_nothing(function):
    """An exhausted generator is passed across the graph break without its variables."""
    assert str(nbcompile.compile(function, backend="eager")(torch.zeros(1))) == str(function(torch.zeros(1)))


def sorted(iterator):  # noqa: A001 - the case: another function has the builtin's name
    return type(iterator)


def iterators_in_a_list(x):
    made = [itertools.permutations([1, 2]), reversed((3, 4)), iter("ab")]
    for iterator in made:
        next(iterator)
    torch._dynamo.graph_break()
    return x + 1, [type(iterator) for iterator in made]


def iterators_in_an_iterator(x):
    made = iter([itertools.product([1], [2, 3])])
    torch._dynamo.graph_break()
    return x + 1, type(next(made))


def iterators_unpacked(x):
    made = itertools.product([1], [2, 3]), iter("ab")
    torch._dynamo.graph_break()
    first, second = made
    return x + 1, type(first), type(second)


def given_to_the_users_sorted(x):
    made = itertools.product([1], [2, 3])
    torch._dynamo.graph_break()
    return x + 1, sorted(made)


@pytest.mark.parametrize(
    "f", [iterators_in_a_list, iterators_in_an_iterator, iterators_unpacked, given_to_the_users_sorted]
)
def test_what_a_loop_takes_keeps_its_class(f):
    """Only the loop's own iterator has no other user: the program may read the class of the items."""
    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


def class_after_a_break(x, it):
    torch._dynamo.graph_break()
    return x + 1, type(it).__name__


def _in_the_closure_of_a_comprehension(x):
    made = iter([1, 2])
    return [class_after_a_break(x, made) for _ in range(2)]


def _in_an_inner_loop_of_a_comprehension(x):
    made = iter([iter([1])]), iter([reversed([2])])
    return [class_after_a_break(x, iterator) for part in made for iterator in part]


def _in_two_lists_that_a_comprehension_reads(x):
    made = [iter([1])]
    other = (made, made)
    return [class_after_a_break(x, part[0]) for part in other] + [class_after_a_break(x, number) for number in (3, "4")]


def _among_what_a_comprehension_takes(x):
    made = [iter([1]), reversed([2]), itertools.product([1], [2])]
    return [class_after_a_break(x, iterator) for iterator in made]


@pytest.mark.parametrize("function", [
    _in_the_closure_of_a_comprehension, _in_an_inner_loop_of_a_comprehension,
    _in_two_lists_that_a_comprehension_reads, _among_what_a_comprehension_takes,
])  # fmt: skip
def test_iterators_that_a_broken_comprehension_can_ask_for_their_class(function):
    """Iterators in the closure of a comprehension, or among its items, have their own classes."""
    x = torch.ones(1)
    found = nbcompile.compile(function, backend="eager")(x)
    assert [name for _, name in found] == [name for _, name in function(x)]


class Recursive(list):
    """A list that contains itself."""


def test_objects_of_the_program_that_contain_themselves_are_not_searched():
    """A list and a module's namespace that contain themselves are values of trackers, and lead to no other tracker."""
    own = Recursive()
    own.append(own)
    # What `exec` with the namespace of `builtins` leaves behind.
    namespace = {"torch": torch, "own": own, "large": [own]}
    namespace["itself"] = namespace
    source = """
def f(x):
    def inner(a):
        return a + len(own)
    numbers = iter([1, 2])
    torch._dynamo.graph_break()
    return inner(x) + next(numbers), type(numbers).__name__, own
"""
    exec(source, namespace)
    x = torch.ones(1)
    found = nbcompile.compile(namespace["f"], backend="eager")(x)
    assert found[:2] == (3, "list_iterator")
    assert found[2] is own
    assert "too deep" not in str(nbcompile.explain(namespace["f"])(x))
