"""Compilation keeps no argument alive: it is freed as early as in eager mode, without the cycle collector."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
import torch

import nbcompile


def straight(x):
    return x.sin() + 1


def broken(x):
    print(end="")
    return x.cos() + 1


def branching(x):
    return x + 1 if x.sum() > 0 else x - 1


def generators(x):
    return sum(2 * each for each in [x, x])


def caught(x):
    try:
        raise ValueError("no")
    except ValueError:
        return x + 1


def broken_in_a_context(x):
    with torch.no_grad():
        print(end="")
        return x + 1


def broken_in_a_loop(x):
    for _ in range(2):
        print(end="")
    return x + 1


def wrong(x):
    return x + torch.ones(7)


def data_dependent(x):
    return x.nonzero().sum()


def closures(x):
    def inner(y):
        nonlocal x
        x = y * 2
        return x

    return inner(x) + 1


def recursive(x, depth=2):
    return x.sin() if depth == 0 else recursive(x, depth - 1) * 2


def trained(x):
    return (x * torch.ones(3, requires_grad=True)).sum()


PROGRAMS = (
    straight, broken, branching, generators, caught, broken_in_a_context, broken_in_a_loop, wrong, data_dependent,
    closures, recursive, trained,
)  # fmt: skip


@pytest.fixture
def no_collector():
    logging.disable()  # torch logs the error of a fake kernel with its traceback, and pytest keeps it
    gc.disable()  # no collection before this: older garbage is none of these objects, and a large heap takes seconds
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def run(function, backend):
    """A weak reference to the argument of one call, which has no other reference afterwards."""
    compiled = nbcompile.compile(function, backend=backend)
    x = torch.randn(3)
    seen = weakref.ref(x)
    try:
        compiled(x)
    except RuntimeError:
        assert function is wrong
    return seen


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_an_argument_lives_no_longer_than_its_call(function, backend, no_collector):
    """The tracer, the frames of failed attempts and the tracebacks form no reference cycle."""
    run(function, backend)  # the first run imports modules
    nbcompile.reset()
    assert run(function, backend)() is None


def test_a_module_lives_no_longer_than_its_user_keeps_it(no_collector):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    seen = weakref.ref(model)
    compiled = nbcompile.compile(lambda module, x: module(x), backend="eager")
    compiled(model, torch.randn(2, 3))
    del model
    assert seen() is None


class Node:
    """An object that weak references can refer to."""


def deleted_before_a_break(x):
    node = Node()
    reference = weakref.ref(node)
    del node
    print(end="")
    return x + 1, reference() is None


def kept_across_a_break(x):
    node = Node()
    node.value = x + 1
    reference = weakref.ref(node)
    print(end="")
    return node.value, reference() is node


def kept_by_another_object(x):
    node, owner = Node(), [x]
    owner.append(node)
    reference = weakref.ref(node)
    del node
    print(end="")
    return owner[0] + 1, reference() is owner[1]


@pytest.mark.parametrize("function", [deleted_before_a_break, kept_across_a_break, kept_by_another_object])
def test_a_weak_reference_across_a_break(function):
    """An object that the code deletes before the break is freed after it; a referenced object is still alive."""
    x = torch.ones(2)
    compiled = nbcompile.compile(function, backend="eager")
    for _ in range(2):
        result, alive = compiled(x)
        assert alive is function(x)[1] is True
        torch.testing.assert_close(result, function(x)[0])
