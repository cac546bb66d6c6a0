"""Tracebacks of errors in or below a compiled function."""

from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.dispatch import tracebacks

HERE = str(Path(nbcompile.__file__).parent) + os.sep


def files(error):
    return [each.filename for each in traceback.extract_tb(error.__traceback__)]


def wrong_shapes(x):
    return x @ x.t() @ x.t()


def late(x, table):
    return torch.nn.functional.embedding(x, table)


def own(x):
    y = x + 1
    raise ValueError(y)


def sine(x):
    return x.sin()


CALLS = {
    "an operator that fails while it is traced": (wrong_shapes, (torch.ones(2, 3),), RuntimeError),
    "a kernel that meets a wrong index": (late, (torch.tensor([7]), torch.ones(3, 2)), IndexError),
    "an exception of the user's": (own, (torch.ones(3),), ValueError),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_traceback_has_the_users_frames_and_none_of_ours(name):
    """The traceback has the user's lines, and lines of the compiler only with ``config.verbose``."""
    function, arguments, kind = CALLS[name]
    nbcompile.reset()
    with (
        config.patch(suppress_errors=True),
        pytest.warns(UserWarning) if kind is RuntimeError else contextlib.nullcontext(),
    ):
        with pytest.raises(kind) as caught:
            nbcompile.compile(function)(*arguments)
    assert not [each for each in files(caught.value) if each.startswith(HERE)]
    assert function.__name__ in {each.name for each in traceback.extract_tb(caught.value.__traceback__)}
    with config.patch(suppress_errors=True, verbose=True), pytest.raises(kind) as caught:
        nbcompile.compile(function)(*arguments)
    assert [each for each in files(caught.value) if each.startswith(HERE)]


def test_an_interrupted_compilation_shows_where_the_user_was():
    """The traceback does not have the compiler's frames."""

    def interrupting(graph, inputs):
        raise KeyboardInterrupt

    nbcompile.reset()
    with pytest.raises(KeyboardInterrupt) as caught:
        nbcompile.compile(sine, backend=interrupting)(torch.ones(3))
    assert {Path(each).name for each in files(caught.value)} == {Path(__file__).name}


def test_code_without_a_hash_is_no_obstacle():
    """Constants of a residual program may be dicts, which have no hash."""

    def keywords(a, *, d):
        return a + d

    nbcompile.reset()
    with pytest.raises(TypeError, match="keyword-only"):
        nbcompile.compile(lambda x: keywords(x, **{}), backend="eager")(torch.ones(3))


def test_torch_logs_nothing_of_what_fails_in_tracing(caplog):
    """An error while tracing is in the exception; an error elsewhere is logged as usual."""
    nbcompile.reset()
    with pytest.raises(nbcompile.exc.TorchRuntimeError):
        nbcompile.compile(wrong_shapes, backend="eager")(torch.ones(2, 3))
    assert not [each for each in caplog.records if "failed while attempting" in each.getMessage()]
    mode = torch._subclasses.FakeTensorMode()
    fake = mode.from_tensor(torch.ones(2, 3))
    with pytest.raises(RuntimeError), mode:
        torch.ops.aten.mm.default(fake, fake)
    assert [each for each in caplog.records if "failed while attempting" in each.getMessage()]


@pytest.mark.parametrize("size", [3, 5])
def test_only_handlers_below_the_compiled_function_count(size):
    """A ``try`` around the call of a compiled function is not asked; one in it is."""
    found = []

    @nbcompile.disable
    def ask(x):
        found.append(tracebacks.may_be_handled())
        return x

    def outside(x):
        return ask(x + size)

    def inside(x):
        try:
            return ask(x + size)
        finally:
            torch.compiler.is_compiling()

    for function in (outside, inside):
        with contextlib.suppress(KeyError):
            nbcompile.compile(function, backend="eager")(torch.ones(size))
    assert found == [False, True]
