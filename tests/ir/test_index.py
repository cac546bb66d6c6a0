"""Index algebra: simplified expressions equal the original ones."""

import sympy
from hypothesis import given, strategies as st

from nbcompile.ir.index import (
    FloorDiv,
    Mod,
    divide,
    drop_floor_divisions,
    flatten,
    known_equal,
    loop_variable,
    loop_variables,
    remainder,
    simplify,
    unflatten,
    upper_bound,
    value_of,
)

I0, I1, I2 = loop_variables(3)
sizes = st.lists(st.integers(1, 7), min_size=3, max_size=3)
linear = st.lists(st.integers(0, 12), min_size=4, max_size=4).map(lambda c: c[0] * I0 + c[1] * I1 + c[2] * I2 + c[3])
trees = st.recursive(
    linear,
    lambda parts: (
        st.builds(FloorDiv, parts, st.integers(1, 9))
        | st.builds(Mod, parts, st.integers(1, 9))
        | st.builds(sympy.Add, parts, parts)
    ),
    max_leaves=4,
)


def ranges(extents):
    return {loop_variable(at): sympy.Integer(size) for at, size in enumerate(extents)}


def places(extents):
    """Some points of the iteration space, the last one included."""
    rows = [
        [0, 0, 0],
        [size - 1 for size in extents],
        [size // 2 for size in extents],
        [0, extents[1] - 1, extents[2] // 3],
    ]
    return [{loop_variable(at): value for at, value in enumerate(row)} for row in rows]


@given(trees, sizes)
def test_simplify_keeps_the_value(expression, extents):
    """A simplified index has the same value at each point."""
    tidy = simplify(expression, ranges(extents))
    for point in places(extents):
        assert value_of(tidy, point) == value_of(expression, point)


@given(linear, st.integers(1, 12), sizes)
def test_divide_and_remainder_are_pythons(numerator, divisor, extents):
    """Quotient and remainder agree with // and %."""
    quotient, rest = (
        divide(numerator, sympy.Integer(divisor), ranges(extents)),
        remainder(numerator, sympy.Integer(divisor), ranges(extents)),
    )
    for point in places(extents):
        number = value_of(numerator, point)
        assert (value_of(quotient, point), value_of(rest, point)) == divmod(number, divisor)


@given(trees, sizes)
def test_upper_bound_holds(expression, extents):
    """The index is never above its upper bound."""
    most = upper_bound(expression, ranges(extents))
    for point in places(extents):
        assert most is None or value_of(expression, point) <= int(most)


@given(sizes)
def test_unflatten_undoes_flatten(extents):
    """unflatten(flatten(position)) is the position."""
    size = [sympy.Integer(each) for each in extents]
    position = [
        I0 if extents[0] > 1 else sympy.Integer(0),
        I1 if extents[1] > 1 else sympy.Integer(0),
        I2 if extents[2] > 1 else sympy.Integer(0),
    ]
    assert list(unflatten(flatten(position, size), size, ranges(extents))) == position


def test_a_split_and_joined_index_is_itself():
    """8*(i0 // 8) + i0 % 8 is i0; equal sizes are found inside of parentheses."""
    assert simplify(8 * FloorDiv(I0, 8) + Mod(I0, 8), {I0: sympy.Integer(100)}) == I0
    assert known_equal(2 * (I0 + 1), 2 * I0 + 2) and not known_equal(I0, I1)


def test_a_reshape_over_several_dimensions_is_one_walk():
    """A contiguous tensor that is read in another shape is indexed with one linear expression."""
    sizes = tuple(sympy.Integer(n) for n in (8, 64, 56, 56))
    i0, i1 = loop_variable(0), loop_variable(1)
    ranges = {i0: sympy.Integer(4096), i1: sympy.Integer(392)}
    position = unflatten(392 * i0 + i1, sizes, ranges)
    assert simplify(flatten(position, sizes), ranges) == 392 * i0 + i1


@given(trees, sizes)
def test_without_rounding_nothing_is_smaller(expression, extents):
    """Without its floor divisions, an expression is never smaller."""
    for point in places(extents):
        for each in (expression, 4 * FloorDiv(expression, 4) - 3 * I0, -FloorDiv(expression, 3)):
            assert value_of(each, point) <= drop_floor_divisions(each).xreplace(point)


def test_as_often_as_it_is_divided():
    """A quotient is replaced only where it is multiplied by its divisor."""
    assert drop_floor_divisions(2 * FloorDiv(I0, 2) - I0) == 0
    assert drop_floor_divisions(2 * FloorDiv(I0 + 1, 2) - I0) == 1
    assert drop_floor_divisions(3 * FloorDiv(I0, 2)) == 3 * FloorDiv(I0, 2)
    assert drop_floor_divisions(-2 * FloorDiv(I0, 2)) == -2 * FloorDiv(I0, 2)
