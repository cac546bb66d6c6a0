"""The factors of a matrix product as text, for the record: sizes, strides, types.

    relu(x) @ w.t()         64x48 [] float32, 48x64 [1, 48] float32

In torch: the table that torch/_inductor/select_algorithm.py logs. Read next: nbcompile/gpu/templates.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbcompile.codegen.triton_products import Product
from nbcompile.ir.expr import Expr, Load
from nbcompile.ir.kernel import Loop
from nbcompile.ir.strides import stride_along


@dataclass(frozen=True, slots=True)
class Factor:
    """Sizes, strides and type of a factor, as text."""

    size: str
    stride: str
    """``[]`` for one that is computed in the kernel."""
    dtype: str


def factors_of(parts: Product) -> tuple[Factor, ...]:
    """Describe both factors, over batch, rows (or the sum) and the sum (or columns)."""
    left = (*parts.batch, *parts.rows, parts.depth)
    right = (*parts.batch, parts.depth, parts.columns)
    return tuple(_factor(body, loops) for body, loops in ((parts.left, left), (parts.right, right)))


def _factor(body: Expr, loops: Sequence[Loop]) -> Factor:
    steps: list[str] = []
    if isinstance(body, Load):
        steps = [str(stride_along(body.index[0], loop.variable)) for loop in loops]
    size = "x".join(str(loop.size) for loop in loops)
    return Factor(size, f"[{', '.join(steps)}]", str(body.dtype))
