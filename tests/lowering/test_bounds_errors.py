"""Tests for nbcompile.lowering.bounds_errors: an index out of bounds raises an error with eager's class and text."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile

ids = torch.tensor([0, 9, 1])


def _written(x):
    x[:, ids] = 1.0
    return x


PROGRAMS = {
    "gather": lambda x: x.gather(1, ids[None]),
    "gather, ATen": lambda x: torch.ops.aten.gather.default(x, 1, ids[None]) * 2,
    "scatter": lambda x: x.scatter(1, ids[None], 1.0),
    "scatter_": lambda x: x.clone().scatter_(1, ids[None], 1.0),
    "scatter_add": lambda x: x.scatter_add(1, ids[None], torch.ones(1, 3)),
    "scatter_reduce": lambda x: x.scatter_reduce(1, ids[None], torch.ones(1, 3), "amax"),
    "index_add": lambda x: x.index_add(0, ids, torch.ones(3, 4)),
    "index_copy": lambda x: x.index_copy(0, ids, torch.ones(3, 4)),
    "index_fill": lambda x: x.index_fill(1, ids, 3.0),
    "index": lambda x: x[:, ids] * 2,
    "index of one of two dimensions": lambda x: x[torch.tensor([0, 1, 2]), ids] * 2,
    "index, written": lambda x: x.index_put((torch.tensor([0, 1, 2]), ids), torch.ones(())),
    "setitem": lambda x: _written(x.clone()),
    "index_add of columns": lambda x: x.index_add(1, ids, torch.ones(3, 3)),
    "index_select": lambda x: x.index_select(0, ids),
    "index_select of columns": lambda x: x.index_select(1, ids),
    "index_select of a vector": lambda x: x.view(-1).index_select(0, ids * 9),
    "index_select of the last of three": lambda x: x.view(3, 2, 2).index_select(-1, ids),
    "index_select of the middle": lambda x: x.view(3, 2, 2).index_select(-2, ids),
    "index_add of a vector": lambda x: x.view(-1).index_add(0, ids * 9, torch.ones(3)),
    "embedding": lambda x: F.embedding(ids, x),
    "embedding, padded": lambda x: F.embedding(ids[None], x, padding_idx=0) + 1,
    "take": lambda x: x.take(ids * 9),
    "nll_loss": lambda x: F.nll_loss(x, ids),
    "cross_entropy": lambda x: F.cross_entropy(x, ids),
    "module": lambda x: torch.nn.CrossEntropyLoss()(x, ids),
}


def error_of(function):
    """The class and text of the error that a call raises."""
    with pytest.raises((IndexError, RuntimeError)) as raised:
        function(torch.arange(12.0).view(3, 4))
    return raised.type, str(raised.value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_are_those_of_eager_mode(name):
    """One ATen operator serves several functions, whose errors differ in class and text, as in eager mode."""
    function = PROGRAMS[name]
    assert error_of(nbcompile.compile(function, fullgraph=True)) == error_of(function)


def test_index_add_of_a_vector_has_the_class():
    """In eager mode index_add goes through scatter_add for rows, and not for elements: the errors' classes differ."""

    def add(x):
        return x[0].index_add(0, ids, torch.ones(3)), x.view(3, 2, 2).index_add(1, ids % 2, torch.ones(3, 3, 2))

    assert error_of(nbcompile.compile(add))[0] is error_of(add)[0] is IndexError


@pytest.mark.parametrize("position", [0, 1])
def test_binary_cross_entropy_has_the_class(position):
    """The check of inputs and targets raises an error of eager mode's class."""
    given = [torch.full((3,), 0.5), torch.full((3,), 0.5)]
    given[position] = torch.tensor([0.5, 2.0, 0.5])

    def loss(_):
        return F.binary_cross_entropy(*given)

    assert error_of(nbcompile.compile(loss))[0] is error_of(loss)[0] is RuntimeError
