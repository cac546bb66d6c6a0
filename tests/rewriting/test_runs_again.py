"""A graph that raises an error has no effect: Python runs the function's own code from its start."""

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
    """A callable that counts its calls."""

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
    """The result or the error of a call, the notes, the calls and the modes afterwards."""
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
    """Assert that two outcomes are equal, with the values of tensors."""
    if not isinstance(expected[0], tuple) or not isinstance(expected[0][0], str):
        torch.testing.assert_close(found[0], expected[0])
    else:
        assert found[0] == expected[0]
    assert found[1:] == expected[1:], (found, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_that_fails_when_the_graph_runs(name, backend):
    """Side effects before the operator happen, later ones do not, and a handler gets the error, also when loaded."""
    function = FUNCTIONS[name]
    compilations = 2 if backend == "inductor" else 1
    for _ in range(compilations):
        nbcompile.reset()
        compiled = nbcompile.compile(function, backend=backend)
        for ids in (GOOD, BAD, GOOD, BAD):
            require_same(play(compiled, ids), play(function, ids))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_parameters_of_every_kind(backend):
    """The code of the function itself, which is not inlined, receives the same arguments."""
    compiled = nbcompile.compile(of_many_kinds, backend=backend)
    for ids in (GOOD, BAD):

        def call(function, ids=ids):
            return play(lambda given: function(given, 1, 2, scale=3, shift=0.5), ids)

        require_same(call(compiled), call(of_many_kinds))


def text(function, *arguments):
    """The first residual program."""
    return nbcompile.explain(function)(*arguments).record.frames[0].residual


def test_only_where_it_may_be_seen_and_is_sound():
    """A graph that mutates an input or draws random numbers does not run again, and one that cannot fail need not."""
    assert "as_written" in text(counts_before_and_after, GOOD)
    assert "as_written" in text(catches, GOOD)
    assert "as_written" in text(chosen, GOOD)
    assert "as_written" not in text(lambda ids: ids * 2, GOOD)

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
    """A graph that raises an error inside a mode exits the mode."""

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


ROWS, NO_ROWS, SEVERAL = torch.arange(12.0).view(4, 3), torch.zeros(0, 3), torch.tensor([0, 9, 1, 8])
WITH_ONE_OF_SEVERAL = {
    "index": (lambda x, ids: x[ids] * 2, ROWS, SEVERAL),
    "index of two dimensions": (lambda x, ids: x[ids, ids.flip(0)] * 2, ROWS, SEVERAL),
    "index_put": (lambda x, ids: x.index_put((ids,), x[0]) * 2, ROWS, SEVERAL),
    "index_add": (lambda x, ids: x.index_add(0, ids, x) * 2, ROWS, SEVERAL),
    "gather": (lambda x, ids: x.gather(0, ids[:3, None]) * 2, ROWS, SEVERAL),
    "scatter": (lambda x, ids: x.scatter(0, ids[:, None], 1.0) * 2, ROWS, SEVERAL),
    "take": (lambda x, ids: x.take(ids * 9) * 2, ROWS, SEVERAL),
    "cross_entropy": (lambda x, ids: torch.nn.functional.cross_entropy(x, ids), ROWS, SEVERAL),
    "no rows, index": (lambda x, ids: x[ids] * 2, NO_ROWS, GOOD),
    "no rows, index_select": (lambda x, ids: x.index_select(0, ids) * 2, NO_ROWS, GOOD),
    "no rows, gather": (lambda x, ids: x.gather(0, ids[:, None]) * 2, NO_ROWS, SEVERAL),
    "no rows, embedding": (lambda x, ids: torch.nn.functional.embedding(ids, x) * 2, NO_ROWS, GOOD),
    "binary_cross_entropy": (lambda x, ids: torch.nn.functional.binary_cross_entropy(x, ids * 1.0), ROWS[0], SEVERAL[:3]),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", WITH_ONE_OF_SEVERAL)
def test_errors_name_what_those_of_eager_mode_name(name, backend):
    """The error names the first wrong value, or none where eager mode names none, also when loaded."""
    function, *arguments = WITH_ONE_OF_SEVERAL[name]
    with pytest.raises((IndexError, RuntimeError, AssertionError)) as expected:
        function(*arguments)
    for _ in range(2):
        nbcompile.reset()
        with pytest.raises((IndexError, RuntimeError, AssertionError)) as found:
            nbcompile.compile(function, backend=backend)(*arguments)
        assert (found.type, str(found.value)) == (expected.type, str(expected.value))
        assert found.value.__context__ is None


def failing_backend(graph_module, example_inputs):
    """A backend whose compiled function raises an error at each call."""

    def run(*_):
        raise ZeroDivisionError("of the backend")

    return run


def catches_errors_of_backends(ids):
    try:
        y = ids * 2
    except ZeroDivisionError:
        y = ids * 3
    return y


@pytest.mark.parametrize(
    "function",
    [
        counter,
        catches,
        catches_errors_of_backends,
        after_a_break,
        in_a_mode,
        chosen,
        lambda ids: torch.vmap(lambda one: one * 2)(ids),
    ],
)
def test_an_error_of_the_users_backend_is_raised(function):
    """An error of the backend alone is raised; its side effects are undone, and modes are restored."""
    NOTES.clear()
    counter.calls = 0
    given = GOOD.clone()
    compiled = nbcompile.compile(lambda ids: function(ids), backend=failing_backend)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="of the backend"):
            compiled(given)
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert counter.calls == 0
    assert set(NOTES) <= {"before the break"}
    assert torch.equal(given, GOOD)


def own_text(graph_module, example_inputs):
    """A backend that runs the graph and raises errors with another text."""

    def run(*arguments):
        try:
            return graph_module(*arguments)
        except IndexError:
            raise LookupError("another text") from None

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_that_fails_in_the_users_backend(name):
    """The error is eager mode's, whatever text the backend has, and side effects before it happen."""
    function = FUNCTIONS[name]
    compiled = nbcompile.compile(function, backend=own_text)
    for ids in (GOOD, BAD, GOOD, BAD):
        require_same(play(compiled, ids), play(function, ids))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def writes_in_a_mode(x):
    with torch.no_grad(), torch.autocast("cpu"):
        x.add_(1)
        return torch.linalg.cholesky(x)


@pytest.mark.parametrize("backend", [own_text, lambda graph_module, example_inputs: graph_module.forward])
def test_modes_after_a_failure_in_the_users_backend(backend):
    """A graph that does not run again exits its mode after an error, too."""
    compiled = nbcompile.compile(writes_in_a_mode, backend=backend)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(-torch.ones(2, 2))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
