"""A generator that nothing has asked yet is handed on as the call that makes it."""

from __future__ import annotations

import types

import pytest
import torch

import nbcompile


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


PROGRAMS = [
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
    if isinstance(value, types.GeneratorType | tuple):
        return [flat(each) for each in value]
    return value.tolist()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_generator_that_did_not_start_outlives_its_graph(program):
    """It yields what eager's does, changes included, and what comes before it is compiled."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    x = torch.ones(2)
    assert flat(nbcompile.compile(program, backend=backend)(x)) == flat(program(x))
    assert graphs


def test_what_is_returned_is_a_generator():
    """torch.compile returns an iterator of a tuple, here it stays what it is."""
    assert isinstance(nbcompile.compile(returned, backend="eager")(torch.ones(2)), types.GeneratorType)
