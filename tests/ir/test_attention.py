"""The attention operator equals its separate steps, also for rows where ATen's kernel differs."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from nbcompile.ir.attention import ATTENTION, Sizes
from nbcompile.ir.layout import SIZE_HINT

SCALE = 0.5


def operands(rows=4, keys=6, width=8, batch=(2, 3)):
    torch.manual_seed(1)
    return tuple(torch.randn(*batch, length, width) for length in (rows, keys, keys))


def steps(query, keys, values, masked, filler):
    """Attention as separate steps."""
    scores = query @ keys.mT * SCALE
    scores = scores if masked is None else scores.masked_fill(masked, filler)
    return torch.softmax(scores, -1) @ values


def operator(query, keys, values, masked, filler):
    bias = None if masked is None else torch.zeros(masked.shape).masked_fill(masked, -math.inf)
    return ATTENTION(query, keys, values, bias, masked, -math.inf if filler is None else filler, SCALE)[0]


FILLERS = [-math.inf, -1e9, torch.finfo(torch.float32).min]


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("rows", [(), (0,), (0, 2), (0, 1, 2, 3)], ids=str)
def test_rows_that_are_masked_whole(filler, rows):
    """For a fully masked row with equal fillers softmax is uniform, with infinities NaN; ATen's kernel returns 0."""
    query, keys, values = operands()
    masked = torch.rand(1, 1, 4, 6) < 0.3
    masked[..., 0] = False
    masked[..., list(rows), :] = True
    expected = steps(query, keys, values, masked, filler)
    torch.testing.assert_close(operator(query, keys, values, masked, filler), expected, equal_nan=True)
    assert bool(expected.isnan().any()) is (bool(rows) and filler == -math.inf)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 3e38])
@pytest.mark.parametrize("where", ["query", "keys", "values"])
@pytest.mark.parametrize("filler", [None, -math.inf, -1e9])
def test_numbers_that_are_not_finite(number, where, filler):
    """Infinities and NaN in one row of queries, keys or values, masked or not, give the result of the steps."""
    given = dict(zip(("query", "keys", "values"), operands(), strict=True))
    given[where][0, 1, 2, 3] = number
    masked = None
    if filler is not None:
        masked = torch.zeros(1, 1, 4, 6, dtype=torch.bool)
        masked[..., 2, :] = True
        masked[..., 1, 2] = True
    expected = steps(*given.values(), masked, filler)
    torch.testing.assert_close(operator(*given.values(), masked, filler), expected, equal_nan=True)


def test_sizes_while_it_is_compiled():
    """Batch and heads are one count of matrices; keys are transposed."""
    query, keys, _ = operands()
    assert Sizes.of(query, keys.mT, 2) == Sizes(6, 4, 6, 8, torch.float32, 2)
    assert Sizes.of(query[0, 0], keys[0, 0].mT, 0).heads == 1


def test_a_size_that_only_numbers_decide_is_a_guess():
    """Unbacked symbolic sizes have a default hint, so that attention over them has a predicted time."""
    rows = ShapeEnv().create_unbacked_symint()
    with FakeTensorMode(shape_env=rows.node.shape_env):
        query, keys = torch.empty(2, 3, rows, 8), torch.empty(2, 3, 8, rows)
        assert Sizes.of(query, keys, 0) == Sizes(6, SIZE_HINT, SIZE_HINT, 8, torch.float32, 0)


def test_fake_tensors_have_the_sizes_of_real_ones():
    """Both results of the fake function have the sizes of the real ones."""
    given = operands()
    real = ATTENTION(*given, None, None, -math.inf, SCALE)
    with FakeTensorMode() as mode:
        fake = ATTENTION(*map(mode.from_tensor, given), None, None, -math.inf, SCALE)
    assert [(each.shape, each.stride()) for each in fake] == [(each.shape, each.stride()) for each in real]
