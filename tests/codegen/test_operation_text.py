"""C++ text of single operations."""

from __future__ import annotations

import pytest
import torch

from nbcompile.codegen.vector_expr import emit_value
from nbcompile.ir.expr import apply, constant
from nbcompile.ir.index import gather_variable, loop_variable
from tests.codegen.test_vector_expr import scope, x

F32, I64 = torch.float32, torch.int64


i0, i1, g0 = loop_variable(0), loop_variable(1), gather_variable(3)


@pytest.mark.parametrize(
    ("exponent", "text"),
    [(1.0, "load"), (2.0, " * "), (0.5, "sqrt("), (-1.0, "reciprocal("), (2.5, "pow("), (0.0, "pow(")],
)
def test_powers_that_eager_mode_multiplies(exponent, text):
    """Powers with the exponents 1, 2, 3, 1/2 and -1 are products or a root; others call pow, for integers, too."""
    assert text in emit_value(scope(), apply("pow", x(i1), constant(exponent, F32))).text
