"""Strides of index expressions, compared with the values of the expressions."""

import itertools

from hypothesis import given, strategies as st

from nbcompile.ir.index import (
    FloorDiv,
    Mod,
    loop_variables,
    value_of,
)
from nbcompile.ir.strides import max_slope, piecewise_stride, repeat_count, stride_along
from tests.ir.test_index import places, trees

I0, I1, I2 = loop_variables(3)


sizes = st.lists(st.integers(1, 7), min_size=3, max_size=3)


linear = st.lists(st.integers(0, 12), min_size=4, max_size=4).map(lambda c: c[0] * I0 + c[1] * I1 + c[2] * I2 + c[3])


@given(trees, sizes)
def test_a_stride_is_what_one_step_moves(expression, extents):
    """A stride, if it is known, is the difference of the index between two iterations."""
    step = stride_along(expression, I1)
    if step is None:
        return
    for point in places(extents):
        assert value_of(expression, {**point, I1: point[I1] + 1}) - value_of(expression, point) == value_of(step, point)


@given(trees, sizes, st.sampled_from((1, -1)))
def test_steepness_bounds_every_step(expression, extents, sign):
    """The difference between two iterations is at most max_slope, if it is known."""
    bound = max_slope(sign * expression, I1)
    if bound is not None:
        values = [value_of(sign * expression, {I0: extents[0], I1: at, I2: extents[2]}) for at in range(12)]
        assert all(after - before <= bound for before, after in itertools.pairwise(values))


@given(trees, sizes)
def test_straight_blocks_are_straight(expression, extents):
    """In a block that starts at a multiple of its length, the index has a constant stride."""
    found = piecewise_stride(expression, I1)
    if found is not None:
        step, length = found
        values = [value_of(expression, {I0: extents[0], I1: at, I2: extents[2]}) for at in range(24)]
        for at, (before, after) in enumerate(itertools.pairwise(values)):
            assert after - before == step or (length and (at + 1) % length == 0)


def test_a_row_of_blocks_is_straight_in_each():
    """Rows of an image in patches have a constant stride in each block; for other rows the result is None."""
    patches = 224 * Mod(FloorDiv(I1, 16), 16) + 50176 * FloorDiv(I1, 256) + Mod(I1, 16)
    assert piecewise_stride(patches, I1) == (1, 16)
    assert piecewise_stride(Mod(I1 + 6, 16), I1) == (1, 2)
    assert piecewise_stride(8 * I0 + 3 * I1, I1) == (3, 0)
    assert piecewise_stride(Mod(2 * I1, 16), I1) is None


def test_repetition():
    """The number of consecutive iterations with one index, or None."""
    assert repeat_count(8 * I0 + FloorDiv(I1, 2), I1) == 2
    assert repeat_count(8 * FloorDiv(I1, 2), I1) is None
    assert repeat_count(FloorDiv(I1 + 1, 2), I1) is None
    assert repeat_count(8 * I0, I1) is None
