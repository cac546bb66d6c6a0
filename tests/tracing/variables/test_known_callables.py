"""Callables that are the same in every call: they are keys, have attributes, and bind arguments as in eager mode."""

from __future__ import annotations

import functools
import operator

import torch

from tests.support.answers import check
from tests.support.oracle import one_graph


def test_built_in_functions_reject_arguments_in_their_words():
    """A wrong count, keyword or type raises the error of the C function."""
    check("len()", "len([], [])", "abs('a')", "divmod(1)", "isinstance(1)", "round(1.5, 'a')", "min()", "sum(1)")


def test_a_known_callable_is_its_own_key():
    """A builtin, a method in C and an operator of torch can be keys, and have their own attributes."""
    check(
        "{len: 1, torch.add: 2, str.upper: 3}[torch.add]", "len in {len, abs}", "str.upper in {str.lower}",
        "len.__name__", "torch.add.__name__", "str.upper.__qualname__", "zip.__name__",
        torch=torch,
    )  # fmt: skip


def test_arguments_take_their_positions():
    """Arguments bind by position and by keyword, as the signature allows."""
    check(
        "isinstance(1, int)", "sorted([2, 1], reverse=True)", "max([], default=3)", "getattr(1, 'x', 4)",
        "functools.reduce(operator.add, [1, 2], 3)", "isinstance(obj=1)", "next(iter([]), 5)",
        functools=functools, operator=operator,
    )  # fmt: skip


def test_an_unbound_method_takes_its_object_first():
    """The first argument of an unbound method in C must be an instance of its class."""
    check("str.upper('a')", "list.count([1, 1], 1)", "str.upper(1)", "dict.get({1: 2}, 1)")


def test_an_unbound_method_rejects_what_is_not_its_object():
    """The errors without arguments, and for an object of another class, have CPython's text."""
    check(
        "str.upper()", "str.upper(x=1)", "str.__len__()", "str.upper([])", "str.__len__([])", "list.__len__(())",
        "dict.get([], 1)", "list.append((), 1)", "dict.__getitem__([], 0)", "list.append()",
    )  # fmt: skip


def test_an_operator_is_a_node():
    """A function of torch is a node of the graph, also with keyword arguments."""
    x = torch.ones(2)
    assert torch.equal(one_graph(lambda x: torch.add(input=x, other=x, alpha=2), x), torch.full((2,), 3.0))
