"""Residual programs that only call a graph run without a frame, and their exceptions show the function all the same.

In torch: nothing; a frame of Python calls each graph.
"""

import sys
import traceback
import warnings
from types import CodeType

import pytest
import torch

import nbcompile
from nbcompile.fast import fast_call, shortcut


def code_of(text):
    """The code of a function, with the built-in ``max`` as a constant in the place of ``"graph"``, as a residual program has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a text is no function
        module = compile(text, "program.py", "exec")
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    return code.replace(co_consts=tuple(max if each == "graph" else each for each in code.co_consts))


@pytest.mark.parametrize(
    ("text", "order", "at"),
    [
        ("def f(a, b):\n return 'graph'(b, a, b)", (1, 0, 1), -1),
        ("def f(a, b):\n found = 'graph'(b, a)\n return found[1]", (1, 0), 1),
        ("def f(a):\n return 'graph'()", (), -1),
    ],
)
def test_a_call_and_an_item_are_read_from_the_code(text, order, at):
    """Which arguments the graph takes, which item is returned, and the line of the call."""
    assert shortcut.of(code_of(text)) == (max, order, at, "f", "program.py", 2)


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n return 'graph'('graph'(a), a)",
        "def f(*a):\n return 'graph'(a)",
        "def f(a, *, b):\n return 'graph'(a, b)",
        "def f(a):\n return 'graph'(a, 3)",
        "def f(a):\n return 'graph'(a, key=a)",
        "def f(a):\n return 'graph'(a)[-1]",
        "def f(a):\n found = 'graph'(a)\n return found, a",
        "def f(a):\n return a(a)",
        "def f(a):\n return 3(a)",
    ],
)
def test_anything_else_has_no_shortcut(text):
    """A second call, arguments that are collected or named, a constant, a value that is built, and what is no function of C."""
    assert shortcut.of(code_of(text)) is None


needs_c = pytest.mark.skipif(fast_call.tools() is None, reason="no compiler")


@needs_c
@pytest.mark.usefixtures("nothing_compiled")
def test_an_exception_shows_the_users_function():
    """What a graph raises in a call without a frame has the function's name and file in its traceback, once."""

    @nbcompile.compile
    def factor(matrix):
        return torch.linalg.cholesky(matrix)

    for _ in range(5):
        assert torch.equal(factor(torch.eye(2)), torch.eye(2))
    with pytest.raises(torch.linalg.LinAlgError) as raised:
        factor(-torch.eye(2))
    lines = [each for each in traceback.extract_tb(raised.value.__traceback__) if each.name == "factor"]
    assert [each.filename for each in lines] == [__file__]


@needs_c
@pytest.mark.usefixtures("nothing_compiled")
def test_results_are_the_same_by_position_by_name_and_with_a_profile():
    """A call that gives each argument by position, one by name and one under a profile function return the same values."""

    class Scaled(torch.nn.Module):
        def forward(self, x, y):
            return x * 2 + y

    for function in (lambda x, y: x * 2 + y, Scaled(), Scaled().forward):
        compiled = nbcompile.compile(function)
        x, y = torch.arange(3.0), torch.ones(3)
        seen = [compiled(x, y) for _ in range(5)]
        seen += [compiled(x, y=y) for _ in range(5)]
        before = sys.getprofile()
        sys.setprofile(lambda *event: None)
        try:
            seen += [compiled(x, y) for _ in range(3)]
        finally:
            sys.setprofile(before)
        assert all(torch.equal(each, x * 2 + y) for each in seen)
        assert len({id(each) for each in seen}) == len(seen)
