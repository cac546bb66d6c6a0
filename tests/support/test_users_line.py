"""Warnings name the line of the user's program."""

from __future__ import annotations

import warnings

import pytest
import torch

import nbcompile
from nbcompile import errors
from nbcompile.support import users_line


def _line(text):
    return next(number for number, line in enumerate(open(__file__), 1) if line.strip() == text)  # noqa: PTH123, SIM115


class Net(torch.nn.Module):
    def forward(self, x, n):
        return x * n


def _limit_of_a_function():
    f = nbcompile.compile(lambda x, n: x * n, dynamic=False, backend="eager")
    for n in range(3):
        f(torch.ones(2), n)  # of a function


def _limit_of_a_module():
    net = nbcompile.compile(Net(), dynamic=False, backend="eager")
    for n in range(3):
        net(torch.ones(2), n)  # of a module


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (_limit_of_a_function, "f(torch.ones(2), n)  # of a function"),
        (_limit_of_a_module, "net(torch.ones(2), n)  # of a module"),
    ],
)
def test_the_line_is_the_users_call(program, line):
    """A warning while a frame is compiled names the call, and not a line of the compiler or of torch."""
    with nbcompile.config.patch(recompile_limit=1), pytest.warns(errors.RecompileLimitWarning) as caught:
        program()
    assert [(found.filename, found.lineno) for found in caught] == [(__file__, _line(line))]


def test_without_a_user_it_is_the_callers_line(monkeypatch):
    """Where every frame is a library's, the warning names the caller of the function."""
    monkeypatch.setattr(users_line, "LIBRARIES", ("",))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        users_line.warn("text", UserWarning)
    assert [(found.filename, str(found.message)) for found in caught] == [(__file__, "text")]
