"""Checks of torch: the class and the text of the exception, and the checks that run with the graph."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.graphs import agrees, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")
X = torch.linspace(-1, 1, 4)


CHECKS = [
    (torch._check, RuntimeError), (torch._check_value, ValueError), (torch._check_index, IndexError),
    (torch._check_type, TypeError), (torch._check_not_implemented, NotImplementedError),
]  # fmt: skip


@pytest.mark.parametrize(("check", "error"), CHECKS)
@pytest.mark.parametrize("message", [None, "said by the program"])
def test_a_check_that_fails_raises_what_it_raises_in_eager_mode(check, error, message):
    """The program may catch the error of a failed check; a check that holds has no effect."""

    def f(x, holds):
        try:
            check(holds) if message is None else check(holds, lambda: message)
        except error as raised:
            return x - 1, str(raised)
        return x + 1, "held"

    for holds in (True, False):
        assert compiled(f, X, holds)[0][1] == f(X, holds)[1]


def test_an_assertion_about_a_tensor_is_for_the_run():
    """A check of a tensor is a node of the graph; a check of a number is decided while tracing."""
    agrees(lambda x: torch._assert(x.shape[0] == 4, "size") or x + 1, X, operators="add")
    _, graphs = compiled(lambda x: torch._assert((x < 5).all(), "large") or x + 1, X, fullgraph=True)
    assert "_assert_async" in graphs[0]


@pytest.mark.parametrize(("check", "error"), CHECKS)
@pytest.mark.parametrize("message", [None, "said by the program", "computed"])
def test_a_check_of_a_size_that_fails_raises_what_it_raises_in_eager_mode(check, error, message):
    """A symbolic size that fails the check raises the check's own class, with the text of this call."""

    def f(x, least):
        y = x + 1
        if message is None:
            check(x.shape[0] >= least)
        elif message == "computed":
            check(x.shape[0] >= least, lambda: f"needs {least}, has {x.shape[0]}")
        else:
            check(x.shape[0] >= least, lambda: "said by the program")
        return y

    function = nbcompile.compile(f, backend="eager", dynamic=True)
    for size, least in ((4, 2), (5, 3), (2, 3), (3, 8), (6, 3)):
        x = torch.ones(size)
        if size >= least:
            assert torch.equal(function(x, least), f(x, least))
            continue
        with pytest.raises(error) as expected:
            f(x, least)
        with pytest.raises(error) as raised:
            function(x, least)
        assert raised.type is error and str(raised.value) == str(expected.value)


@pytest.mark.parametrize("condition", [torch.ones(1), torch.ones(2) > 3, 1, None, 0.0, "x"], ids=str)
def test_a_check_of_no_bool_is_an_error(condition):
    """A tensor or a number is no condition: eager mode's TypeError."""

    def f(x, condition):
        y = x + 1
        try:
            torch._check(condition, lambda: "no")
        except TypeError as error:
            return y, str(error)
        return y, "held"

    assert compiled(f, X, condition)[0][1] == f(X, condition)[1]
