"""Which calls of a captured graph write into their first argument."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx

from nbcompile.aot.graph_calls import is_in_place, name_of_target


@pytest.mark.parametrize(("kind", "target", "keywords", "expected"), [
    ("call_method", "t_", {}, True),
    ("call_method", "t", {}, False),
    ("call_method", "__add__", {}, False),
    ("call_function", operator.iadd, {}, True),
    ("call_function", operator.add, {}, False),
    ("call_function", operator.setitem, {}, True),
    ("call_function", operator.index, {}, False),
    ("call_function", torch.nn.functional.relu, {"inplace": True}, True),
    ("call_function", torch.nn.functional.relu, {"inplace": False}, False),
    ("call_function", torch.relu_, {}, True),
])  # fmt: skip
def test_writes_are_known_by_name_operator_or_keyword(kind, target, keywords, expected):
    """One underscore behind the name, an operator of Python that writes, or ``inplace=True``; two underscores are none."""
    node = torch.fx.Graph().create_node(kind, target, (1,), keywords)
    assert is_in_place(node) is expected
    assert name_of_target(node) == (target if isinstance(target, str) else target.__name__)
