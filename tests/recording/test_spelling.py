"""Targets and arguments in a record, spelled as people write them."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.nn import functional as F

from nbcompile.recording import spelling


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.sin, "torch.sin"),
        (F.relu, "torch.nn.functional.relu"),
        (F.gelu, "torch.nn.functional.gelu"),
        (torch.linalg.norm, "torch.linalg.norm"),
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        (operator.add, "operator.add"),
        (operator.getitem, "operator.getitem"),
        (getattr, "getattr"),
        ("relu", "relu"),
        (torch._C._set_grad_enabled, "torch._C._set_grad_enabled"),
        (len, "len"),
    ],
)
def test_targets_are_spelled_as_people_write_them(target, name):
    assert spelling.target_name(target) == name


def test_arguments_are_spelled_as_people_write_them():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.foo if hasattr(torch, "foo") else torch.sum, (x, [1, (x,)]), {"dtype": torch.int8})
    assert spelling.arguments(node) == "(x, [1, (x,)], dtype=torch.int8)"
    item = graph.call_function(operator.getitem, (x, (slice(None, 2, None), None, ...)))
    assert spelling.arguments(item) == "(x, (slice(None, 2, None), None, Ellipsis))"
    assert spelling.arguments(x) == "()"


def test_no_address_reaches_the_record():
    class Opaque:
        pass

    graph = torch.fx.Graph()
    node = graph.call_function(print, (graph.placeholder("x"),))
    node.args = (*node.args, "text")
    assert "0x" not in spelling.spelled(Opaque())
