"""Context variables in compiled functions: read, set and reset as in eager mode."""

from __future__ import annotations

import contextlib
import threading
from contextvars import ContextVar, Token, copy_context

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

scale = ContextVar("scale", default=2)
other = ContextVar("other")
X = torch.arange(6.0)


class Settings:
    """An object that a variable holds."""

    def __init__(self, factor):
        self.factor = factor


def read(run):
    """Results of calls with the default, with a value, and with the default again."""
    results = [run(X)]
    token = scale.set(5)
    results.append(run(X))
    scale.reset(token)
    return [*results, run(X), scale.name]


def read_unset(run):
    results = [run(X)]
    token = other.set(5)
    results.append(run(X))
    other.reset(token)
    return [*results, run(X)]


def read_objects(run):
    results = []
    for factor in (1, 2):
        settings = Settings(factor)
        other.set(settings)
        results.append(run(X))
        settings.factor = 7
        results.append(run(X))
    return results


def read_tensors(run):
    results = []
    for value in (X + 1, X + 2):
        other.set(value)
        results.append(run(X))
    return results


def calls(run):
    return [run(X), scale.get(), other.get(None), run(X), scale.get()]


def returned_tokens(run):
    *values, last, first = run(X)
    seen = [last.old_value, first.old_value is Token.MISSING, last.var is scale, scale.get()]
    scale.reset(last)
    return [*values, *seen, scale.get()]


def _lookup_error(x):
    try:
        return x * other.get()
    except LookupError as error:
        return x - 1, error.args[0] is other


def _balanced(x):
    token = scale.set(3)
    try:
        y = x * scale.get()
    finally:
        scale.reset(token)
    return y + scale.get()


def _set(x):
    scale.set(scale.get() + 1)
    scale.set(scale.get() * 2)
    return x * scale.get()


def _set_tensor(x):
    before = other.get(None)
    other.set(x + 1)
    return x * 2, before


@contextlib.contextmanager
def scaled(value):
    token = scale.set(value)
    try:
        yield scale.get()
    finally:
        scale.reset(token)


def _context_manager(x):
    with scaled(5) as value:
        x = x * scale.get() + value
    with scaled(6), scaled(7):
        x = x + scale.get()
    return x + scale.get()


def _tokens(x):
    first = scale.set(1)
    scale.set(2)
    last = scale.set(3)
    return x + scale.get(), last, first


def _key(x):
    return x * {scale: 3}[scale], scale is other, scale == scale


WHOLE = {
    "get": (read, lambda x: x * scale.get()),
    "a default of the call": (read, lambda x: (x * scale.get(9), scale.get(x))),
    "an unset one": (read_unset, _lookup_error),
    "an unset one with a default": (read_unset, lambda x: x * other.get(7)),
    "objects": (read_objects, lambda x: x * other.get().factor),
    "tensors": (read_tensors, lambda x: x * other.get()),
    "balanced": (calls, _balanced),
    "set": (calls, _set),
    "set to a tensor": (calls, _set_tensor),
    "a context manager": (calls, _context_manager),
    "tokens that are returned": (returned_tokens, _tokens),
    "a key": (calls, _key),
}  # fmt: skip


def _equal(one, another):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, another)
    if isinstance(one, (list, tuple)):
        return len(one) == len(another) and all(map(_equal, one, another))
    return one == another


@pytest.mark.parametrize(("play", "function"), WHOLE.values(), ids=WHOLE)
def test_a_context_variable_is_read_and_set_in_one_graph(play, function):
    """Values are guarded, changes are made after the graph; torch.compile 2.13 breaks at each call."""
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    assert _equal(copy_context().run(play, function), copy_context().run(play, compiled))


def _around_a_break(x):
    token = scale.set(4)
    y = x * scale.get()
    torch._dynamo.graph_break()
    y = y + scale.get()
    scale.reset(token)
    return y * scale.get()


def _read_by_a_skipped_function(x):
    token = scale.set(4)
    y = x * skipped()
    scale.reset(token)
    return y * scale.get() + skipped()


@torch.compiler.disable
def skipped():
    """Read the variable in eager mode."""
    return scale.get()


@torch.library.custom_op("nbcompile_tests::read_scale", mutates_args=())
def read_scale(x: torch.Tensor) -> torch.Tensor:
    """An operator of the program that reads the variable."""
    return x * scale.get()


@read_scale.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compiler.allow_in_graph
def read_in_the_graph(x):
    """A function that is a node of the graph, and reads the variable."""
    return x * scale.get()


def _read_by_operators(x):
    token = scale.set(4)
    y = read_scale(x) + torch.ops.nbcompile_tests.read_scale(x) * 2 + read_in_the_graph(x)
    scale.reset(token)
    return y + read_scale(x)


def _reset_in_another_order(x):
    first = scale.set(4)
    second = scale.set(5)
    scale.reset(first)
    y = x * scale.get()
    scale.reset(second)
    return y, scale.get()


def _reset_twice(x):
    token = scale.set(4)
    scale.reset(token)
    try:
        scale.reset(token)
    except RuntimeError:
        return x + 1
    return x


def _token_beside_what_it_replaces(x):
    before = other.get()
    token = other.set(x + 5)
    return token.old_value is before, token.var is other, before, x * 2


@pytest.mark.parametrize(
    "function",
    [
        _around_a_break,
        _read_by_a_skipped_function,
        _reset_in_another_order,
        _reset_twice,
        _token_beside_what_it_replaces,
    ],
)
def test_what_breaks_the_graph_has_eager_results(function):
    """The variable is set before the broken call, and a token outlives it."""

    def play(run):
        other.set(X * 3)
        return [run(X), scale.get(), run(X), other.get()]

    compiled = nbcompile.compile(function, backend="eager")
    assert _equal(copy_context().run(play, function), copy_context().run(play, compiled))


def _reset_from_outside(x, first, second):
    y = x * scale.get() + other.get()
    scale.reset(first)
    other.reset(second)
    try:
        other.get()
    except LookupError:
        y = y + 1
    try:
        scale.reset(first)
    except RuntimeError:
        y = y + 2
    return y * scale.get(), scale.get(8), other.get(3)


def test_tokens_from_outside_are_reset_by_python():
    """They break the graph: a token may have been used, which raises an error."""

    def play(run):
        results = []
        for value in (4, 4, 5):
            results += [run(X, scale.set(value), other.set(1)), scale.get(), other.get(None)]
        return results

    compiled = nbcompile.compile(_reset_from_outside, backend="eager")
    assert _equal(copy_context().run(play, _reset_from_outside), copy_context().run(play, compiled))


def test_a_change_survives_an_error():
    """The value that was set before an exception is seen by the caller."""

    def f(x):
        scale.set(11)
        raise ValueError(x)

    def play():
        with pytest.raises(ValueError):
            nbcompile.compile(f, backend="eager")(X)
        return scale.get()

    assert copy_context().run(play) == 11


def test_each_thread_has_its_own_value():
    """A guard reads the variable in the thread of the call."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: x * scale.get(), backend=graphs, dynamic=False)
    found = []

    def work(value):
        scale.set(value)
        found.append(compiled(X)[1].item())

    for value in (3, 4, 3):
        thread = threading.Thread(target=work, args=(value,))
        thread.start()
        thread.join()
    assert found == [3, 4, 3] and compiled(X)[1].item() == 2
    assert len(graphs) == 3


def test_a_body_of_an_operator_sets_nothing():
    """A branch of ``cond`` may not run, so that what it sets cannot be in the graph; it may read."""

    def sets(x):
        scale.set(3)
        return x * 2

    def f(x, branch):
        return torch.cond(x.sum() > 0, branch, lambda x: x - 1, (x,))

    assert torch.equal(nbcompile.compile(f, fullgraph=True)(X, lambda x: x * scale.get()), X * 2)
    with pytest.raises(RuntimeError, match="side effect"):
        nbcompile.compile(f, backend="eager")(X, sets)
