"""The loop IR as text."""

from __future__ import annotations

import math

import pytest
import torch

from nbcompile.ir.expr import IndexOf, Load, Masked, apply, cast, constant
from nbcompile.ir.index import FloorDiv, Mod, loop_variable
from nbcompile.ir.printer import dtype_name, print_expr, print_index, print_number

i0, i1 = loop_variable(0), loop_variable(1)
A, B, C = (Load(name, (i0,), torch.float32) for name in "abc")


@pytest.mark.parametrize(("body", "text"), [
    (A - (B - C), "a[i0] - (b[i0] - c[i0])"),
    (A - B - C, "a[i0] - b[i0] - c[i0]"),
    ((A + B) * C, "(a[i0] + b[i0]) * c[i0]"),
    (A + B * C, "a[i0] + b[i0] * c[i0]"),
    (-(A + B), "-(a[i0] + b[i0])"),
    (apply("exp", A + B), "exp(a[i0] + b[i0])"),
    (cast(A, torch.int64), "int64(a[i0])"),
    (apply("logical_not", apply("lt", A, B)), "not a[i0] < b[i0]"),
    (Masked(apply("lt", A, 0.0), B, C), "b[i0] if a[i0] < 0.0 else c[i0]"),
    (Masked(apply("lt", A, 0.0), B, C) + A, "(b[i0] if a[i0] < 0.0 else c[i0]) + a[i0]"),
    (IndexOf(8 * i0 + i1, torch.int64) * constant(2, torch.int64), "(8*i0 + i1) * 2"),
])  # fmt: skip
def test_bodies_have_the_fewest_parentheses_that_keep_their_meaning(body, text):
    """Bodies have only the parentheses that Python needs."""
    assert print_expr(body) == text


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_numbers_are_the_shortest_text_that_rounds_to_them(dtype):
    """A constant is printed as the shortest text that parses to the same number in its dtype."""
    for value in (0.1, 1 / 3, 1e-5, 65504.0, -0.0, math.pi):
        number = torch.tensor(value, dtype=dtype).item()
        text = print_number(number, dtype)
        assert torch.tensor(float(text), dtype=dtype).item() == number
        assert math.copysign(1, float(text)) == math.copysign(1, number)
    assert print_number(torch.tensor(0.1, dtype=dtype).item(), dtype) == "0.1"


def test_numbers_without_digits():
    """Infinity and nan are printed with Python's names, and bools as bools."""
    assert print_number(math.inf, torch.float32) == "inf" and print_number(math.nan, torch.float32) == "nan"
    assert print_number(True, torch.bool) == "True"


def test_indices_and_types():
    """Divisions are printed as Python's; dtypes without the module."""
    assert print_index(FloorDiv(i0, 8) + Mod(i1, 2)).replace(" ", "") in (
        "i0//8+i1%2",
        "i1%2+i0//8",
        "(i0//8)+(i1%2)",
        "(i1%2)+(i0//8)",
    )
    assert dtype_name(torch.bfloat16) == "bfloat16"
