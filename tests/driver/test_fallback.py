"""Calls that are not compiled: the fallback, and the message for the user."""

from __future__ import annotations

import contextlib
import gc
import warnings

import pytest
import torch

import nbcompile
from nbcompile import config, errors
from nbcompile.driver import fallback
from nbcompile.support import fuel
from tests.support.graphs import Graphs


def test_below_a_transform_a_function_runs_as_it_is():
    """The fallback is only for this call: ``code_wide`` is False."""
    calls = Graphs()

    compiled = nbcompile.compile(lambda x: x.sin(), backend=calls)
    x = torch.randn(2, 3)
    assert torch.equal(torch.func.vmap(compiled)(x), x.sin()) and not calls
    assert torch.equal(compiled(x), x.sin()) and len(calls) == 1
    assert not fallback.IN_TRANSFORM.code_wide


def test_bisection_leaves_a_frame_as_python():
    """The limit logs the name and the line of the function."""

    def f(x):
        return x + 1

    with fuel.limited("frame", 0) as log:
        assert nbcompile.compile(f)(torch.ones(2)).tolist() == [2, 2]
    assert [entry.split(" ")[0] for entry in log] == ["f"]


def test_a_recompilation_may_be_an_error():
    """The error of ``config.error_on_recompile`` has the guard that failed."""
    compiled = nbcompile.compile(lambda x, n: x + n, dynamic=False)
    compiled(torch.ones(2), 1)
    with config.patch(error_on_recompile=True), pytest.raises(errors.RecompileError, match="n"):
        compiled(torch.ones(2), 2)


@pytest.mark.compiles
def test_at_the_limit_entries_are_used_and_nothing_is_compiled():
    """A single warning names the limit, and the results are eager mode's."""
    compiled = nbcompile.compile(lambda x, n: x + len("a" * n), dynamic=False, recompile_limit=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(4):
            assert compiled(torch.ones(1), n).item() == 1 + n
    told = [each for each in caught if each.category is errors.RecompileLimitWarning]
    assert len(told) == 1 and "recompile_limit (2)" in str(told[0].message)


def test_entries_that_wait_for_the_collector_do_not_count():
    """Entries of deleted functions are collected by the garbage collector before the limit is checked."""

    def use(inner, x):
        return inner(x)

    compiled = nbcompile.compile(use, recompile_limit=2, backend="eager")
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", errors.RecompileLimitWarning)
            for _ in range(5):
                holder = []

                def inner(x, holder=holder):
                    return x + 1

                holder.append(inner)  # a cycle: only the collector frees it
                assert compiled(inner, torch.ones(1)).item() == 2
    finally:
        gc.enable()


def test_a_mistake_of_ours_is_a_warning(monkeypatch):
    """An internal error is a warning, and the function runs uncompiled; with ``fullgraph=True`` it is raised."""

    def broken(*_):
        raise KeyError("a bug")

    monkeypatch.setattr("nbcompile.driver.stages.build_residual", broken)
    with pytest.warns(errors.InternalErrorWarning, match="KeyError"):
        assert nbcompile.compile(lambda x: x + 1)(torch.ones(1)).item() == 2
    with pytest.raises(errors.InternalError):
        nbcompile.compile(lambda x: x + 2, fullgraph=True)(torch.ones(1))


def fails(x):
    return x @ torch.ones(5)


def handles_in_the_caller(x):
    try:
        return fails(x)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error), str(error)


def handles_another_class(x):
    try:
        return fails(x)
    except KeyError:
        return x


def handles_further_out(x):
    try:
        return handles_another_class(x)
    except RuntimeError as error:
        return type(error), str(error)


def handles_in_turn(x):
    found = []
    for size in (5, 3, 5):
        try:
            found.append(fails(x[:size]).item())
        except RuntimeError as error:
            found.append(str(error))
    return found


def suppresses(x):
    with contextlib.suppress(RuntimeError):
        torch._dynamo.graph_break()
        return fails(x)
    return "suppressed"


HANDLED = (handles_in_the_caller, handles_further_out, handles_in_turn, suppresses)


@pytest.mark.parametrize("function", HANDLED, ids=lambda function: function.__name__)
def test_a_handler_of_an_eager_caller_sees_the_operators_error(function):
    """A callee is compiled by itself below a handler that Python runs; the error is eager's, in class and text."""
    x = torch.ones(3 if function is not handles_in_turn else 5)
    assert nbcompile.compile(function, backend="eager")(x) == function(x)


def test_an_error_that_passes_a_handler_is_eagers():
    """No clause matches: eager mode's error leaves the compiled function."""
    with pytest.raises(RuntimeError, match="^inconsistent tensor size") as raised:
        nbcompile.compile(handles_another_class, backend="eager")(torch.ones(3))
    assert raised.type is RuntimeError


def test_a_handler_outside_of_the_compiled_function_does_not_count():
    """A caller of the compiled function handles the compiler's error, as with torch.compile."""
    compiled = nbcompile.compile(fails, backend="eager")
    try:
        compiled(torch.ones(3))
    except errors.TorchRuntimeError as error:
        assert isinstance(error.inner_exception, RuntimeError)
    else:
        pytest.fail("nothing was raised")
