"""Generators across a graph break: the call that creates one, or a function that starts at its suspended position."""

from __future__ import annotations

import itertools
import operator
import types

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def parts(x, /, *more, k=1, **named):
    yield x + k
    yield from more
    yield from named.values()


class Steps:
    def __init__(self):
        self.width = torch.ones(2)

    def __iter__(self):
        for each in range(3):
            yield self.width * each


def returned(x):
    y = x * 2
    return (y + each for each in range(2))


def returned_twice(x):
    y = x * 2
    generator = (y + each for each in range(2))
    return generator, generator


def with_every_kind_of_argument(x):
    y = x * 2
    generator = parts(y, 1, 2, k=5, z=7)
    torch._dynamo.graph_break()
    return sum(generator)


def its_list_grows(x):
    xs = [x, x + 1]
    generator = (each for each in xs)
    torch._dynamo.graph_break()
    xs.append(x + 2)
    return sum(generator)


def its_cell_changes(x):
    y, k = x + 1, 1
    generator = (k * each for each in [y, x])
    torch._dynamo.graph_break()
    k = 3
    return sum(generator)


def its_object_changes(x):
    steps, y = Steps(), x * 2
    iterator = iter(steps)
    torch._dynamo.graph_break()
    steps.width = steps.width + 1
    return y + sum(iterator)


def shares_an_iterator(x):
    y, numbers = x * 2, iter([1, 2, 3])
    generator = (y * each for each in numbers)
    torch._dynamo.graph_break()
    next(numbers)
    return sum(generator)


def it_breaks_itself(x):
    def numbers(y):
        yield y + 1
        torch._dynamo.graph_break()
        yield y * 2

    return sum(numbers(x - 1))


def numbers(x, items=(1, 2, 3, 4)):
    for item in items:
        sent = yield x * item
        x = x if sent is None else x + sent
    return x


def delegates(x):
    yield (yield from numbers(x, (1, 2)))


def totals(x):
    total = 0

    def add(item):
        nonlocal total
        total += item
        return x * total

    while total < 20:
        yield add(3)


def waits(x):
    generator = numbers(x)
    first = next(generator)
    torch._dynamo.graph_break()
    return first, next(generator), sum(generator)


def waits_and_is_sent_something(x):
    generator = numbers(x)
    first = next(generator)
    torch._dynamo.graph_break()
    second = generator.send(first)
    torch._dynamo.graph_break()
    return second, generator.send(second), generator.__name__, generator.__qualname__


def waits_under_two_names(x):
    generator = other = numbers(x)
    first = next(generator)
    torch._dynamo.graph_break()
    return first + next(generator) * next(other), generator is other


def waits_while_its_list_grows(x):
    items = [1, 2]
    generator = numbers(x, items)
    first = next(generator)
    torch._dynamo.graph_break()
    items.append(5)
    return first, list(generator), items


def waits_in_yield_from(x):
    generator = delegates(x)
    first = next(generator)
    torch._dynamo.graph_break()
    return first, generator.send(first), list(generator)


def waits_with_cells(x):
    generator = totals(x)
    first = next(generator)
    torch._dynamo.graph_break()
    return first, next(generator), list(generator)


def many_wait(x):
    generators = [numbers(x * k) for k in range(3)]
    first = [next(each) for each in generators]
    torch._dynamo.graph_break()
    return first, [next(each) for each in generators]


def waits_in_a_loop(x):
    for item in numbers(x):
        x = x + item
        torch._dynamo.graph_break()
    return x


def waits_and_is_returned(x):
    generator = numbers(x)
    return next(generator), generator


PROGRAMS = [
    waits,
    waits_and_is_sent_something,
    waits_under_two_names,
    waits_while_its_list_grows,
    waits_in_yield_from,
    waits_with_cells,
    many_wait,
    waits_and_is_returned,
    returned,
    returned_twice,
    with_every_kind_of_argument,
    its_list_grows,
    its_cell_changes,
    its_object_changes,
    shares_an_iterator,
    it_breaks_itself,
]


def flat(value):
    if isinstance(value, types.GeneratorType | tuple | list):
        return [flat(each) for each in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_generator_outlives_its_graph(program):
    """The generator yields eager mode's items, also after mutations, and the code before the break is compiled."""
    graphs = Graphs()

    x = torch.ones(2)
    assert flat(nbcompile.compile(program, backend=graphs)(x)) == flat(program(x))
    assert graphs


@pytest.mark.parametrize("again", range(3))
def test_a_loop_over_a_generator_that_breaks(again):
    """The loop breaks the graph in each iteration and gives eager mode's results, also in later calls."""
    compiled, x = nbcompile.compile(waits_in_a_loop, backend="eager"), torch.ones(2)
    for _ in range(again + 1):
        assert torch.equal(compiled(x), waits_in_a_loop(x))


def test_a_generator_that_is_left_waiting_in_a_finally():
    """The generator is closed at its last reference: the frame that recreates it does not keep it alive."""
    log = []

    def guarded(x):
        try:
            yield x + 1
        finally:
            log.append("closed")

    def program(x):
        generator = guarded(x)
        first = next(generator)
        torch._dynamo.graph_break()
        del generator
        return first, len(log)

    assert nbcompile.compile(program, backend="eager")(torch.ones(2))[1] == 1
    assert log == ["closed"]


def test_what_is_returned_is_a_generator():
    """The function returns a generator, whereas torch.compile returns an iterator of a tuple."""
    assert isinstance(nbcompile.compile(returned, backend="eager")(torch.ones(2)), types.GeneratorType)


ITERATORS = {
    "enumerate": lambda x: enumerate([x, x + 1, x + 2], 3),
    "chain": lambda x: itertools.chain([x], [x + 1, 5]),
    "chain.from_iterable": lambda x: itertools.chain.from_iterable([[x], [x + 1, 5]]),
    "islice": lambda x: itertools.islice([x + 1, x + 2, x], 1, 3),
    "accumulate": lambda x: itertools.accumulate([x, x + 1], operator.mul),
    "accumulate from": lambda x: itertools.accumulate([x, 2], initial=5),
    "zip_longest": lambda x: itertools.zip_longest([x], [1, 2], fillvalue=7),
    "starmap": lambda x: itertools.starmap(operator.add, [(x, 1), (2, 3)]),
    "takewhile": lambda x: itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1]),
    "dropwhile": lambda x: itertools.dropwhile(lambda n: n < 2, [1, 2, 3, 1]),
    "pairwise": lambda x: itertools.pairwise([x, 1, 2]),
    "compress": lambda x: itertools.compress([x, 1, 2], [1, 0, 1]),
    "filterfalse": lambda x: itertools.filterfalse(lambda n: n < 2, [1, 2, 3, 1]),
    "groupby": lambda x: itertools.groupby([1, 1, 2]),
}
ONCE_ASKED = {"enumerate", "starmap", "takewhile", "filterfalse"}
"""Iterators whose whole state is known once they have yielded an item."""


def described(value):
    """A value without identities, with iterators as lists of their items."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [described(each) for each in value] if hasattr(value, "__iter__") else value


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_of_the_library_outlives_its_graph(name, asked):
    """The iterator has eager mode's class and remaining items, and the other operations are compiled."""
    make = ITERATORS[name]

    def program(x):
        iterator = make(x)
        for _ in range(asked):
            next(iterator)
        return iterator, x * 2

    graphs = Graphs()

    x = torch.ones(2)
    (iterator, doubled), (expected, _) = (
        nbcompile.compile(program, backend=graphs, isolate_recompiles=True)(x),
        program(x),
    )
    assert type(iterator) is type(expected)
    assert described(iterator) == described(expected) and doubled.tolist() == [2, 2]
    assert bool(graphs) or (asked and name not in ONCE_ASKED)


@pytest.mark.parametrize("name", ["enumerate", "chain", "islice", "takewhile", "compress"])
def test_an_iterator_of_the_library_follows_its_list(name):
    """The iterator yields items that are appended after the graph break, as in eager mode."""
    make = {
        "enumerate": enumerate,
        "chain": itertools.chain,
        "islice": lambda items: itertools.islice(items, None),
        "takewhile": lambda items: itertools.takewhile(lambda item: item is not None, items),
        "compress": lambda items: itertools.compress(items, itertools.repeat(1)),
    }[name]

    def program(x):
        items = [x, x + 1]
        iterator = make(items)
        torch._dynamo.graph_break()
        items.append(x + 2)
        return list(iterator)

    x = torch.ones(2)
    assert described(nbcompile.compile(program, backend="eager")(x)) == described(program(x))


def test_a_waiting_generator_in_two_circles():
    """A generator that its own list and its own cell refer to continues after a graph break with the same list."""

    def program(x):
        def items():
            kept = []
            me = yield x
            kept.append(me)
            yield x + 1
            yield len(kept), kept[0] is generator

        generator = items()
        next(generator)
        generator.send(generator)
        torch._dynamo.graph_break()
        return list(generator)

    x = torch.ones(2)
    assert nbcompile.compile(program, backend="eager")(x) == program(x) == [(1, True)]
