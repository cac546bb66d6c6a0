"""Extensions of a copy of the minicompiler."""

from __future__ import annotations

import pytest
import torch

from nbcompile.teach import mini
from nbcompile.teach.attempt import Rejection


def test_each_copy_is_one_of_its_own():
    """An extension of one copy does not change the next; loading prints nothing."""
    first, second = mini.load(), mini.load()
    first.NAMES["new"] = "new"
    assert "new" not in second.NAMES and first.minicompile is not second.minicompile


def program(x):
    return torch.relu(x + 1)


def breaks(x):
    print("half way")
    return x + 1


@pytest.fixture
def copy():
    """A copy whose graphs are interpreted."""
    made = mini.load()
    vars(made)["BACKEND"] = made.interpret
    return made


def test_a_program_is_compiled_and_right(copy):
    """A program is compiled without a fallback, and its result is right."""
    mini.expect_compiled(copy, program, torch.arange(-2.0, 2.0))
    with pytest.raises(Rejection, match="`breaks`"):
        mini.expect_compiled(copy, breaks, torch.ones(2))


def test_a_change_that_makes_it_wrong_is_said(copy):
    """A wrong result, or an exception of the changed compiler, has a sentence."""
    vars(copy)["minicompile"] = lambda function: lambda x: function(x) + 1
    with pytest.raises(Rejection, match="with your change, the result of `program` is wrong"):
        mini.expect_compiled(copy, program, torch.ones(2))

    def fails(function):
        raise KeyError("add")

    vars(copy)["minicompile"] = fails
    with pytest.raises(Rejection, match="with your change, `program` raises KeyError: 'add'"):
        mini.expect_compiled(copy, program, torch.ones(2))
