"""Scalar expressions: which simplifications the constructors do, and which they must not do."""

from __future__ import annotations

import math

import pytest
import torch

from nbcompile.ir.expr import (
    OPERATIONS,
    Apply,
    Constant,
    IndexOf,
    Load,
    UnsupportedDtype,
    apply,
    cast,
    compute_dtype,
    constant,
)
from nbcompile.ir.index import loop_variable

i0 = loop_variable(0)
x, y = Load("x", (i0,), torch.float32), Load("y", (i0,), torch.float32)


def test_numbers_are_equal_as_bits():
    """0.0 and -0.0 are different constants, NaN is one constant: bodies are compared to share them."""
    assert constant(0.0, torch.float32) != constant(-0.0, torch.float32)
    assert constant(math.nan, torch.float32) == constant(math.nan, torch.float32)
    assert constant(1, torch.int64) != constant(1.0, torch.float64)
    assert hash(constant(math.nan, torch.float32)) == hash(constant(math.nan, torch.float32))


def test_adding_zero_is_kept():
    """-0.0 + 0 is 0.0, so the addition remains; a factor of 1 and a neutral bool are removed."""
    assert isinstance(x + 0.0, Apply)
    assert x * 1.0 is x and 1.0 * x is x
    condition = apply("lt", x, y)
    assert apply("logical_and", condition, constant(True, torch.bool)) is condition


def test_a_number_takes_the_type_of_the_other_operand():
    """A number has the dtype of the other operand, as in ATen: 0.1 is rounded to float32 once."""
    added = apply("add", x, 0.1)
    assert added.args[1] == Constant(torch.tensor(0.1).item(), torch.float32)
    assert apply("lt", x, 0).dtype == torch.bool
    assert apply("where", apply("lt", x, y), x, 0).dtype == torch.float32


def test_a_cast_there_and_back_is_none_where_no_number_is_lost():
    """A cast and its inverse are removed if they are exact: bfloat16 and int16 in float32, but not int32."""
    for narrow, wide, is_exact in (
        (torch.bfloat16, torch.float32, True), (torch.int16, torch.float32, True),
        (torch.int32, torch.float32, False), (torch.int32, torch.float64, True), (torch.uint8, torch.int8, False),
    ):  # fmt: skip
        value = Load("v", (i0,), narrow)
        back = cast(cast(value, wide), narrow)
        assert (back is value) == is_exact, (narrow, wide)
    assert cast(IndexOf(i0, torch.int64), torch.int32) == IndexOf(i0, torch.int32)


def test_narrow_floats_are_computed_in_float32():
    """Only loads, casts and selects have float16 or bfloat16 values."""
    assert {compute_dtype(dtype) for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2)} == {torch.float32}
    assert compute_dtype(torch.float64) == torch.float64


def test_every_operation_says_what_it_takes():
    """Each operation has an arity and a kind that code generators support."""
    kinds = {"arithmetic", "comparison", "logical", "bitwise", "float", "random", "cast", "where"}
    assert {each.kind for each in OPERATIONS.values()} == kinds
    assert all(each.arity in (1, 2, 3) and each.cost > 0 for each in OPERATIONS.values())


def test_complex_numbers_are_rejected_where_a_constant_would_have_one():
    """A complex constant is rejected: kernels have no complex dtype, so ATen runs such an operator."""
    with pytest.raises(UnsupportedDtype):
        constant(1.0, torch.complex64)
