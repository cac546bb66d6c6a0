"""Traversal of expressions: visits, costs and substitution."""

from __future__ import annotations

import torch

from nbcompile.ir.expr import (
    IndexOf,
    Load,
    Masked,
    apply,
    constant,
)
from nbcompile.ir.index import index, loop_variable
from nbcompile.ir.traversal import children, constant_condition, cost, loads, substitute, transform

i0 = loop_variable(0)


x, y = Load("x", (i0,), torch.float32), Load("y", (i0,), torch.float32)


def test_operands_and_costs():
    """Loads are found anywhere, in a masked load, too; an expensive operation costs more than a sum."""
    body = Masked(apply("lt", x, 0.0), apply("exp", y), constant(0.0, torch.float32))
    assert [each.buffer for each in loads(body)] == ["x", "y"]
    assert children(body) == (body.condition, body.value, body.otherwise)
    assert cost(apply("exp", x)) > cost(x + y)


def test_a_replaced_node_is_not_visited_again():
    """``transform`` is top down: the operands of a replacement are not visited."""
    doubled = transform(x, lambda node: apply("add", node, node) if node == x else None)
    assert doubled == apply("add", x, x)


def test_a_condition_on_a_known_position_is_decided():
    """A pad that is indexed with a constant is one of its two branches, without a condition."""
    inside = apply("lt", IndexOf(i0, torch.int64), constant(4, torch.int64))
    padded = Masked(inside, x, y)
    assert constant_condition(inside) is None
    assert substitute(padded, {i0: index(2)}) == substitute(x, {i0: index(2)})
    assert substitute(padded, {i0: index(5)}) == substitute(y, {i0: index(5)})
