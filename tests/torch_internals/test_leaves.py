"""Registered containers, and modules with other parameters."""

from __future__ import annotations

import dataclasses

import torch
import torch.utils._pytree

from nbcompile.torch_internals.leaves import module_tensors, parameters_set, pytree_node


def test_a_container_that_is_not_registered_has_no_node():
    """A list is one, a class of the user's is none until it registers."""

    @dataclasses.dataclass
    class Pair:
        first: object
        second: object

    assert pytree_node(list) is not None and pytree_node(Pair) is None
    torch.utils._pytree.register_dataclass(Pair)
    assert pytree_node(Pair).fields == ("first", "second")


def test_parameters_are_put_back():
    """Inside, the module computes with the given tensors; a shared one is named once."""
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.BatchNorm1d(1, affine=False))
    module.append(module[0])
    names, own = module_tensors(module), module[0].weight
    assert names == ["0.weight", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    with parameters_set([torch.full((1, 1), 3.0)], [(module, {"0.weight": 0})]):
        assert module[0](torch.ones(1, 1)).item() == 3.0
    assert module[0].weight is own
