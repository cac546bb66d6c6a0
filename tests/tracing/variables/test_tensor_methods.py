"""Methods of tensors that are not nodes of the graph."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs
from tests.support.oracle import one_graph


def test_sizes_are_numbers():
    """One size or all sizes are returned; a missing dimension raises eager mode's error."""
    check(
        "x.size()", "x.size(0)", "x.size(dim=-1)", "x.size(3)", "x.size('a')", "x.stride()", "x.stride(0)", "x.numel()",
        "x.nelement()", "x.numel(1)", "x.storage_offset()", "x[1:].storage_offset()", "x.type()", "len(x)", "x.__len__()",
    )  # fmt: skip


def test_items_are_called_by_their_special_methods():
    """``__getitem__`` and ``__setitem__`` index; a wrong number of arguments raises torch's error."""
    check(
        "x.__getitem__(0) + 0", "x.__getitem__()", "x.__getitem__(0, 1)", "x.__setitem__(0)",
        "y = x + 0\nr = y.__setitem__(0, 5.0)\nreturn y, r",
    )  # fmt: skip


def test_new_tensors_have_dtype_and_device_of_the_old():
    """``new_tensor`` and ``new`` use the dtype and the device of the tensor, unless another dtype is given."""
    check(
        "x.double().new_tensor([1, 2])", "x.double().new_tensor([1, 2], dtype=torch.int64)", "x.double().new(2, 3).shape",
        "x.double().new(torch.Size([2])).dtype",
    )  # fmt: skip


def test_a_step_size_may_be_a_tensor():
    """``add_``, ``addcmul_`` and ``addcdiv_`` with a computed scale are nodes, and do not read its value."""

    def function(x, scale):
        a = (x + 0).add_(x, alpha=scale)
        b = (x + 0).addcmul_(x, x, value=scale)
        c = (x + 0).addcdiv_(x, x, value=scale)
        return a, b, c

    x = torch.tensor([2.0, 4.0])
    found = one_graph(function, x, torch.tensor(3.0))
    assert [each.tolist() for each in found] == [[8.0, 16.0], [14.0, 52.0], [5.0, 7.0]]


def test_whole_numbers_become_a_list():
    """``tolist`` of ints is traced, also for several dimensions."""

    def function(x):
        return x + 1, x.tolist()

    x = torch.arange(4).reshape(2, 2)
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    assert compiled(x)[1] == [[0, 1], [2, 3]]


def test_an_address_is_that_of_the_tensor():
    """``data_ptr`` of the returned tensor is read after the graph has run."""
    address, result = one_graph(lambda x: (lambda y: (y.data_ptr(), y))(x + 1), torch.ones(2))
    assert address == result.data_ptr()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_change_that_changes_nothing_is_no_node(wanted):
    """``requires_grad_`` with the tensor's current setting adds no node."""
    graphs = Graphs()
    x = torch.ones(2, requires_grad=wanted)
    nbcompile.compile(lambda x: x.requires_grad_(wanted) * 2, backend=graphs, fullgraph=True)(x)
    assert graphs.operators == ["mul"]
