"""A graph that raises leaves nothing behind: Python runs the function's own code from its start."""

import pytest
import torch

import nbcompile

GOOD, BAD = torch.tensor([0]), torch.tensor([5])
NOTES = []


def note(value):
    NOTES.append(value)


def chosen(ids):
    return torch.arange(3.0).index_select(0, ids)


class Counter:
    """Counts its calls."""

    calls = 0

    def __call__(self, ids):
        self.calls += 1
        note(self.calls)
        return chosen(ids), self.calls


counter = Counter()


def counts_before_and_after(ids):
    note("before")
    y = chosen(ids)
    note("after")
    return y


def catches(ids):
    try:
        y = chosen(ids)
    except IndexError as error:
        note(type(error))
        return ids + 1
    else:
        return y


def catches_around_a_call(ids):
    try:
        return counts_before_and_after(ids)
    except IndexError:
        return ids * 2
    finally:
        note("finally")


def of_many_kinds(ids, /, *rest, scale=2, **more):
    note(len(rest))
    return chosen(ids) * scale + more["shift"], rest


def in_a_closure(ids):
    kept = ids + 0

    def inner():
        note(kept.shape[0])
        return chosen(kept) + shift

    shift = 1
    return inner()


def of_cells(ids):
    def inner():
        nonlocal ids
        ids = ids + 0
        return chosen(ids)

    note(len(ids))
    return inner()


def after_a_break(ids):
    note("before the break")
    torch._dynamo.graph_break()
    note("behind it")
    y = chosen(ids)
    note("never")
    return y


def in_a_mode(ids):
    note("mode")
    with torch.no_grad(), torch.autocast("cpu"):
        return chosen(ids)


def lazily(ids):
    outer = [note]

    def inner():
        outer[0](torch.is_grad_enabled())
        return chosen(ids)

    return inner()


FUNCTIONS = {
    "object": lambda ids: counter(ids),
    "before and after": counts_before_and_after,
    "caught": catches,
    "caught around a call": catches_around_a_call,
    "parameters": lambda ids: of_many_kinds(ids, 1, 2, scale=3, shift=0.5),
    "closure": in_a_closure,
    "cells": of_cells,
    "break": after_a_break,
    "modes": in_a_mode,
    "called function": lazily,
}


def play(function, ids):
    """What a call returns or raises, and what it left."""
    NOTES.clear()
    counter.calls = 0
    try:
        result = function(ids)
    except Exception as error:
        result = error.args
        note(type(error))
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    return result, list(NOTES), counter.calls, modes


def require_same(found, expected):
    """Also the values of tensors."""
    if not isinstance(expected[0], tuple) or not isinstance(expected[0][0], str):
        torch.testing.assert_close(found[0], expected[0])
    else:
        assert found[0] == expected[0]
    assert found[1:] == expected[1:], (found, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_that_fails_when_the_graph_runs(name, backend):
    """Side effects before it are there, those after it are not; what catches the exception gets it; loaded, too."""
    function = FUNCTIONS[name]
    compile_again = 2 if backend == "inductor" else 1
    for _ in range(compile_again):
        nbcompile.reset()
        compiled = nbcompile.compile(function, backend=backend)
        for ids in (GOOD, BAD, GOOD, BAD):
            require_same(play(compiled, ids), play(function, ids))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_parameters_of_every_kind(backend):
    """The function itself, not inlined: its code is given the same arguments."""
    compiled = nbcompile.compile(of_many_kinds, backend=backend)
    for ids in (GOOD, BAD):

        def call(function, ids=ids):
            return play(lambda given: function(given, 1, 2, scale=3, shift=0.5), ids)

        require_same(call(compiled), call(of_many_kinds))


def text(function, *arguments):
    """The first residual program."""
    return nbcompile.explain(function)(*arguments).record.frames[0].residual


def test_only_where_it_may_be_seen_and_is_sound():
    """A graph that writes to an input or draws random numbers does not run twice; without side effects it need not."""
    assert "as_written" in text(counts_before_and_after, GOOD)
    assert "as_written" in text(catches, GOOD)
    assert "as_written" not in text(chosen, GOOD)

    def writes(x):
        note("write")
        return x.view(-1).add_(1) + 1

    def writes_to_its_own(x):
        note("write")
        return (x + 1).add_(1)

    def draws(x):
        note("draw")
        return torch.dropout(x, 0.5, True)

    def hooks(x):
        note("hook")
        y = x * 2
        y.register_hook(lambda grad: grad * 2)
        return y

    for function, again in ((writes, False), (writes_to_its_own, True), (draws, False), (hooks, False)):
        x = torch.ones(3, requires_grad=function is hooks)
        assert ("as_written" in text(function, x)) == again, function


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("enter", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")])
def test_modes_after_a_failure(backend, enter):
    """A graph that raises within a mode leaves it."""

    def f(ids):
        with enter():
            return chosen(ids)

    compiled = nbcompile.compile(f, backend=backend)
    compiled(GOOD)
    with pytest.raises(IndexError):
        compiled(BAD)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert not torch.is_autocast_enabled("cpu")
