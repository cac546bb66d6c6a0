"""Tests of nbcompile/tracing/variables/function_members.py: members of functions that the traced code replaces."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import nbcompile
from nbcompile.errors import Unsupported


def scaled(a, b=2, *, c=3):
    return a * b + c


def positional(x):
    def f(a, b=2, *, c=3):
        return a * b + c

    f.__defaults__ = (7,)
    first = f(x)
    f.__kwdefaults__ = {"c": x}
    return first + f(x), f.__defaults__, f


def more_than_before(x):
    def f(a, b, c):
        return a * b + c

    f.__defaults__ = (2, 3)
    return f(x), f(x, 5), f


def none(x):
    def f(a, b=2, *, c=3):
        return a * b + c

    f.__defaults__ = f.__kwdefaults__ = None
    errors = []
    for given in ((x,), (x, 1)):
        try:
            f(*given)
        except TypeError as error:
            errors.append(str(error))
    return x + 1, errors


def item_of_the_dict(x):
    def f(a, *, c=1):
        return a + c

    f.__kwdefaults__["c"] = 5
    return f(x), f.__kwdefaults__, f


def after_a_break(x):
    def f(a, b=1):
        return a * b

    f.__defaults__ = (x,)
    print(end="")
    return f(x), f.__defaults__[0]


def called_by_others(x):
    def f(a, b=1):
        return a * b

    f.__defaults__ = (3,)
    return functools.partial(f, x)(), (lambda *given: f(*given))(x), list(map(f, [x]))


def of_a_global(x):
    scaled.__defaults__ = (x.shape[0],)
    first = scaled(x)
    scaled.__kwdefaults__["c"] = 10
    second = scaled(x)
    scaled.__kwdefaults__ = {"c": 20}
    return first, second, scaled(x), scaled.__defaults__, scaled.__kwdefaults__


def wrapped(x):
    @functools.wraps(scaled)
    def f(*given, **named):
        return scaled(*given, **named)

    f.__wrapped__.__defaults__ = (5,)
    return f(x)


PROGRAMS = [
    positional, more_than_before, none, item_of_the_dict, after_a_break, called_by_others, of_a_global, wrapped,
]  # fmt: skip


def played(function):
    scaled.__defaults__, scaled.__kwdefaults__ = (2,), {"c": 3}
    results = function(torch.arange(3.0))
    results = results if isinstance(results, tuple) else (results,)
    shown = [(r.__defaults__, r.__kwdefaults__, r(torch.ones(3))) if inspect.isfunction(r) else r for r in results]
    return str([shown, scaled.__defaults__, scaled.__kwdefaults__])


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("program", PROGRAMS)
def test_defaults_that_the_traced_code_replaces(program):
    """A call takes the defaults that the function has at that moment; so does a caller who gets the function."""
    compiled = nbcompile.compile(program, backend="eager", fullgraph=program not in (after_a_break, none))
    assert [played(compiled), played(compiled)] == [played(program)] * 2
    played(scaled)


@pytest.mark.usefixtures("nothing_compiled")
def test_wrong_values_are_errors_of_python():
    """A member that gets a value of another class, and a read-only one, raise Python's own errors."""

    def program(x):
        def f(a, b=2):
            return a * b

        wrong = [
            ("__defaults__", [1]), ("__kwdefaults__", 3), ("__name__", 3), ("__qualname__", None), ("__closure__", ()),
            ("__globals__", {}), ("__builtins__", {}), ("__code__", 5), ("__annotations__", 3),
        ]  # fmt: skip
        errors = []
        for name, value in wrong:
            try:
                setattr(f, name, value)
            except (TypeError, AttributeError) as error:
                errors.append((name, type(error).__name__, str(error)))
        return x + 1, errors

    x = torch.ones(2)
    assert str(nbcompile.compile(program, backend="eager", fullgraph=True)(x)) == str(program(x))


@pytest.mark.usefixtures("nothing_compiled")
def test_another_code_object_breaks_the_graph():
    """What was traced of a function belongs to its old code: Python makes the assignment, and calls the new code."""

    def program(x):
        def f(a):
            return a + 1

        def g(a):
            return a * 7

        first = f(x)
        f.__code__ = g.__code__
        return first, f(x)

    x = torch.ones(2)
    assert str(nbcompile.compile(program, backend="eager")(x)) == str(program(x))
    nbcompile.reset()
    with pytest.raises(Unsupported, match="__code__"):
        nbcompile.compile(program, backend="eager", fullgraph=True)(x)
