"""An index out of bounds raises eager's error, and no memory outside the tensor is read or written."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile

x, square = torch.randn(6, 8), torch.randn(5, 5)
good, bad = torch.tensor([0, 5, 2]), torch.tensor([0, 6, 2])
OPERATORS = {
    "index": lambda x, ids: x[ids],
    "index, two": lambda x, ids: x[ids, ids] + 1,
    "index, fused": lambda x, ids: (x * 2 + 1)[ids].sum(1),
    "index_select": lambda x, ids: x.index_select(0, ids),
    "gather": lambda x, ids: x.gather(0, ids.unsqueeze(1)),
    "take": lambda x, ids: x.take(ids * 8),
    "take_along_dim": lambda x, ids: x.take_along_dim(ids.unsqueeze(1), 0),
    "embedding": lambda x, ids: F.embedding(ids, x) * 2,
    "index into equal numbers": lambda x, ids: x.new_zeros(6)[ids] + 1,
    "index into one number": lambda x, ids: x[0, :1].expand(6)[ids],
    "index into equal columns": lambda x, ids: x[:, :1].expand(6, 6)[ids, ids],
    "index into equal integers, times 0": lambda x, ids: torch.arange(6)[ids] * 0,
    "index_select of equal numbers": lambda x, ids: x.new_ones(6).index_select(0, ids),
    "gather of equal numbers": lambda x, ids: x.new_ones(6, 2).gather(0, ids.unsqueeze(1)),
    "embedding of equal rows": lambda x, ids: F.embedding(ids, x[:1].expand(6, 8)),
    "nll_loss of equal numbers": lambda x, ids: F.nll_loss(x.new_zeros(3, 6), ids),
    "one_hot": lambda x, ids: F.one_hot(ids, 6),
    "one_hot, ATen": lambda x, ids: torch.ops.aten.one_hot(ids, 6) + x[:3, :6].long(),
    "one_hot, product": lambda x, ids: F.one_hot(ids.view(3, 1), 6).float() @ x,
    "index_put": lambda x, ids: x.index_put((ids,), torch.ones(8)),
    "index_put, accumulated": lambda x, ids: x.index_put((ids,), torch.ones(3, 8), accumulate=True),
    "scatter": lambda x, ids: x.scatter(0, ids.unsqueeze(1), 1.0),
    "scatter_add": lambda x, ids: x.scatter_add(0, ids.unsqueeze(1), torch.ones(3, 1)),
    "index_add": lambda x, ids: x.index_add(0, ids, torch.ones(3, 8)),
    "index_copy": lambda x, ids: x.index_copy(0, ids, torch.ones(3, 8)),
    "index_fill": lambda x, ids: x.index_fill(0, ids, 7.0),
}


def outcome(function, *inputs):
    """The result, or the class of the error."""
    try:
        return function(*inputs)
    except (IndexError, RuntimeError) as error:
        return type(error)


def require_same(found, expected):
    """Assert equal results, or errors of one class."""
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
    else:
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_indices_out_of_bounds(name):
    """Indices that are too large, too small or negative behave as in eager mode, with symbolic sizes, too."""
    function = OPERATORS[name]
    for dynamic in (False, True):
        compiled = nbcompile.compile(function, fullgraph=True, dynamic=dynamic)
        torch.testing.assert_close(compiled(x, good), function(x, good))
        for ids in (bad, torch.tensor([-7, 0, 1]), torch.tensor([2**40, 0, 1])):
            require_same(outcome(compiled, x, ids), outcome(function, x, ids))
        negative = torch.tensor([-1, -6, 3])
        require_same(outcome(compiled, x, negative), outcome(function, x, negative))


def test_no_index_at_all():
    """An empty index is valid, also for a tensor without elements; any other index into it is out of bounds."""
    function = nbcompile.compile(lambda x, ids: x[ids] * 2, fullgraph=True)
    none = torch.empty(0, dtype=torch.int64)
    assert function(x, none).shape == (0, 8)
    assert function(torch.empty(0, 8), none).shape == (0, 8)
    with pytest.raises(IndexError):
        function(torch.empty(0, 8), good)


def test_a_mask_keeps_an_index_from_being_read():
    """A masked load with an index out of bounds is no error, as for padding."""
    function = nbcompile.compile(lambda x, ids: F.pad(x[ids], (0, 0, 1, 1)).sum(), fullgraph=True)
    torch.testing.assert_close(function(x, good), x[good].sum())


def test_the_tensor_is_unharmed():
    """After the error, a tensor that was to be mutated still holds its old values around the index."""
    guarded = torch.zeros(64)
    inside = guarded[16:48].view(4, 8)

    def change(t, ids):
        t.index_put_((ids,), torch.ones(8))
        return t.sum()

    with pytest.raises(IndexError):
        nbcompile.compile(change, fullgraph=True)(inside, torch.tensor([1, 4]))
    assert not guarded[:16].any() and not guarded[48:].any()
