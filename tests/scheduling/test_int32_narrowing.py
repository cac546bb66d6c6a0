"""Indices are computed in int32 if they fit, and otherwise in int64."""

import pytest
import sympy
import torch
from hypothesis import given, strategies as st
from torch._subclasses import FakeTensorMode

from nbcompile.ir.expr import Apply, Constant, Expr, IndexOf
from nbcompile.ir.index import loop_variable
from nbcompile.ir.kernel import Accumulate, Nest
from nbcompile.ir.traversal import walk
from nbcompile.scheduling.int32_narrowing import bounds, narrow_to_int32
from tests.codegen.test_cpp import compiled
from tests.support.lowered import check, programs

I0, I1 = loop_variable(0), loop_variable(1)
RANGES = {I0: sympy.Integer(256), I1: sympy.Integer(100)}
POSITIONS = [IndexOf(I0, torch.int64), IndexOf(3 * I1 + I0, torch.int64)]


def dtypes(body: Expr):
    return {node.dtype for node in walk(body)} - {torch.bool}


def test_a_causal_mask_is_compared_in_32_bits():
    """i1 <= i0 becomes a comparison of int32."""
    mask = Apply("le", (IndexOf(I1, torch.int64), IndexOf(I0, torch.int64)), torch.bool)
    assert dtypes(narrow_to_int32(mask, RANGES)) == {torch.int32}


def test_large_positions_stay_as_they_are():
    """A product that may not fit, and a symbolic size, remain int64."""
    large = Apply("mul", (IndexOf(I0, torch.int64), Constant(2**30, torch.int64)), torch.int64)
    mask = Apply("lt", (large, Constant(5, torch.int64)), torch.bool)
    assert narrow_to_int32(mask, RANGES) == mask
    unknown = Apply("lt", (IndexOf(I0, torch.int64), Constant(5, torch.int64)), torch.bool)
    assert narrow_to_int32(unknown, {I0: sympy.Symbol("s0", integer=True, positive=True)}) == unknown


trees = st.recursive(
    st.sampled_from(POSITIONS) | st.integers(-(2**31), 2**31 - 1).map(lambda n: Constant(n, torch.int64)),
    lambda parts: (
        st.builds(
            lambda op, a, b: Apply(op, (a, b), torch.int64),
            st.sampled_from(["add", "sub", "mul", "maximum", "minimum"]),
            parts,
            parts,
        )
        | st.builds(lambda a: Apply("neg", (a,), torch.int64), parts)
    ),
    max_leaves=6,
)
PYTHON = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "maximum": max,
    "minimum": min,
    "neg": int.__neg__,
}


def value(body, places):
    match body:
        case Constant(number):
            return number
        case IndexOf(index):
            return int(index.xreplace(places))
        case Apply(op, args):
            return PYTHON[op](*(value(each, places) for each in args))


@given(trees, st.integers(0, 255), st.integers(0, 99))
def test_bounds_hold(body, first, second):
    """Each value of a tree is within its bounds, and the bounds fit in int32."""
    found = bounds(body, RANGES)
    if found is not None:
        assert (
            -(2**31)
            <= found[0]
            <= value(body, {I0: sympy.Integer(first), I1: sympy.Integer(second)})
            <= found[1]
            < 2**31
        )


def test_masks_over_positions_give_eagers_values():
    """arange, tril and arithmetic on indices, compared and cast, give eager's values."""

    def function(x):
        rows, columns = torch.arange(33)[:, None], torch.arange(33)
        causal = torch.where(rows >= columns, x, float("-inf"))
        band = torch.where((rows - columns).abs() < 4, x, 0.0)
        return (
            torch.softmax(causal, -1),
            band,
            (rows * 7 - columns * 3).float() * x,
            x.tril(),
            (rows == columns) & (x > 0),
        )

    x = torch.randn(4, 33, 33)
    for ours, eager in zip(compiled(function, [x])([x]), function(x), strict=True):
        torch.testing.assert_close(ours, eager)


def totals(function, *inputs):
    """The dtypes of the sums of a program."""
    _, plan = programs(function, *inputs)
    nests = [each for kernel in plan.kernels() for each in kernel.body if isinstance(each, Nest)]
    return {part.value.dtype for nest in nests for part in nest.body if isinstance(part, Accumulate)}


X = torch.arange(-300, 300).reshape(20, 30)
COUNTS = {
    "down columns": lambda x: (x > 7).sum(0),
    "along rows": lambda x: (x != 0).sum(1),
    "all": lambda x: (x == 3).sum() + (x.to(torch.uint8) + 1).sum(),
    "a share of each row": lambda x: (x > 7).sum(1) / x.shape[1] + (x % 2 == 0).sum(1, keepdim=True),
    "beside elements": lambda x: x - (x > 7).sum(0),
    "of small numbers": lambda x: x.to(torch.int16).sum(0) * 2,
    "one or two": lambda x: ((x > 3).long() + (x < 9)).sum(1),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_made_in_32_bits(name):
    """A sum of few bools, or of few other small numbers, is computed in int32; its result is int64."""
    assert totals(COUNTS[name], X) == {torch.int32}
    check(COUNTS[name], X)


def test_large_sums_stay_as_they_are():
    """A sum of large numbers, of many small ones, or of a symbolic count remains int64."""
    assert totals(lambda x: x.sum(), X) == {torch.int64}
    with FakeTensorMode():
        many = torch.empty(2**17, dtype=torch.int16)
    assert totals(lambda x: x.sum(), many) == {torch.int64}
    _, plan = programs(lambda x: (x > 7).sum(), X, dynamic=True)
    assert not any("narrow" in str(kernel.body) for kernel in plan.kernels())
