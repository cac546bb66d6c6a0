"""Operators that fail for some values fail as in eager mode, whatever becomes of their result."""

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.capture import value_errors

GOOD, BAD = torch.tensor([0, 1, 1]), torch.tensor([0, 9, 1])
UNUSED = {
    "index": lambda x, ids: x[ids],
    "index_select": lambda x, ids: x.index_select(0, ids),
    "gather": lambda x, ids: x.gather(0, ids.unsqueeze(1)),
    "take": lambda x, ids: x.take(ids * 4),
    "embedding": lambda x, ids: F.embedding(ids, x),
    "cross_entropy": lambda x, ids: F.cross_entropy(x[:3], ids),
    "one_hot": lambda x, ids: F.one_hot(ids, 3),
    "index_put_": lambda x, ids: x.clone().index_put_((ids,), x[0]),
    "scatter_add": lambda x, ids: x.scatter_add(0, ids.unsqueeze(1), x[:3]),
    "index_add": lambda x, ids: x.index_add(0, ids, x[:3]),
    "//": lambda x, ids: torch.arange(3) // (ids - 9),
    "%": lambda x, ids: torch.arange(3) % (ids - 9),
    "fmod": lambda x, ids: torch.fmod(torch.arange(3), ids - 9),
    "div": lambda x, ids: torch.div(torch.arange(3), ids - 9, rounding_mode="trunc"),
    "embedding_bag": lambda x, ids: F.embedding_bag(ids.unsqueeze(0), x),
    "binary_cross_entropy": lambda x, ids: F.binary_cross_entropy(ids.float(), ids.float() * 0),
}
PARTS = {
    "shape": lambda x, ids: x.new_ones(x[ids].shape),
    "zeros_like": lambda x, ids: torch.zeros_like(x[ids]),
    "overwritten": lambda x, ids: x[ids].copy_(x[:3]),
    "first": lambda x, ids: (x[ids] * 2)[:1] + 1,
    "none": lambda x, ids: x[ids][:0].sum(),
    "every second": lambda x, ids: x.index_select(0, ids)[::2] * 2,
    "pool": lambda x, ids: F.avg_pool1d(x[ids].t().unsqueeze(0), 1, 2),
    "not looked at": lambda x, ids: x[ids] ** 0,
    "power, quotient": lambda x, ids: torch.zeros_like(torch.arange(3) // (ids - 9)),
    "used": lambda x, ids: F.binary_cross_entropy((ids / 8).expand(2, 3), x.reshape(4, 3)[:2] / 12),
}


def play(function, ids, grad=False):
    """What a call returns or raises, in eager mode's words."""
    x = torch.arange(12.0).reshape(6, 2).requires_grad_(grad)
    try:
        result = function(x, ids)
        if result.requires_grad:
            result.sum().backward()
    except Exception as error:
        return type(error), str(error)
    return result.detach(), x.grad


def require_as_eager(function, compiled, grad):
    """Good ids give values and gradients, bad ones the error."""
    torch.testing.assert_close(play(compiled, GOOD, grad), play(function, GOOD, grad), equal_nan=True)
    assert play(compiled, BAD, grad) == play(function, BAD, grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", [*UNUSED, *PARTS])
def test_with_operators_of_aten(name, backend, grad):
    """An error by type and text; the result is not used, or used in part."""
    if name in UNUSED:
        unused = UNUSED[name]

        def function(x, ids):
            unused(x, ids)
            return x + 1
    else:
        function = PARTS[name]
    nbcompile.reset()
    require_as_eager(function, nbcompile.compile(function, backend=backend), grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", ["index_select", "cross_entropy", "//", "embedding_bag", "binary_cross_entropy"])
def test_unused_in_generated_code(name, grad):
    """The same with kernels: only the indices are looked at."""
    unused = UNUSED[name]

    def function(x, ids):
        unused(x, ids)
        return x + 1

    nbcompile.reset()
    require_as_eager(function, nbcompile.compile(function), grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", ["zeros_like", "first", "none", "pool", "not looked at", "power, quotient", "used"])
def test_parts_in_generated_code(name, grad):
    """A part of a result, or a function that does not look at it."""
    require_as_eager(PARTS[name], nbcompile.compile(PARTS[name]), grad)


def test_what_is_used_as_a_whole_has_no_other_check():
    """The loop over all rows looks at every index: nothing is added to it."""

    def whole(w, ids):
        return (F.embedding(ids, w) * 2).view(3, 2).sum(0)

    def part(w, ids):
        return (F.embedding(ids, w) * 2)[:1]

    kernels = []
    for function in (whole, part):
        record = nbcompile.explain(function)(torch.arange(12.0).reshape(6, 2), GOOD).record
        kernels.append(str(record).count("_assert_tensor_metadata"))
    assert kernels[0] == 0
    assert kernels[1] > 0


def test_divisions_that_cannot_fail():
    """Floats, and integers by a number that is not 0, have no check to keep."""
    aten = torch.ops.aten
    whole, real = torch.arange(3), torch.ones(3)
    assert value_errors.fails_by_value(aten.remainder.Tensor, (whole, whole))
    assert not value_errors.fails_by_value(aten.remainder.Tensor, (real, whole))
    assert not value_errors.fails_by_value(aten.remainder.Scalar, (whole, 3))
    assert not value_errors.fails_by_value(aten.div.Tensor, (whole, whole))
    assert value_errors.fails_by_value(aten.div.Tensor_mode, (whole, whole))
