"""Sizes of kernels that were written for a node: numbers, or texts over symbolic sizes.

    quotient(100, 64)                  2
    quotient("s0", 64)                 "((s0) + 63) // 64"        as Python, for the grid, and as Triton, in the kernel

In torch: texpr of torch/_inductor/select_algorithm.py. Read next: nbcompile/codegen/triton_grouped.py
"""

from __future__ import annotations

import re

import torch

from nbcompile.codegen.printers import TRITON, UnprintableIndex, print_index
from nbcompile.ir.index import constant, index

Size = int | str
"""A number; or its text over symbolic sizes, the same in Python and in Triton."""


def size_text(size: int | torch.SymInt) -> int | str:
    """A size, or its text over symbolic sizes.

    Raises:
        UnprintableIndex: kernels have no such arithmetic.
    """
    expression = index(size)
    if (number := constant(expression)) is not None:
        return number
    try:
        text = print_index(expression, TRITON)
    except NotImplementedError:
        raise UnprintableIndex(str(expression)) from None
    # Triton's text of a quotient rounds negative numbers explicitly, and is the same number in Python. Functions and
    # conditions have different texts.
    if not re.fullmatch(r"[\w\s+*()/%-]*", text):
        raise UnprintableIndex(text)
    return text


def quotient(size: Size, block: int) -> Size:
    """Number of blocks; the last one may be partial."""
    return -(-size // block) if isinstance(size, int) else f"(({size}) + {block - 1}) // {block}"


def added(first: Size, second: Size) -> Size:
    """The sum."""
    return first + second if isinstance(first, int) and isinstance(second, int) else f"({first}) + ({second})"


def multiplied(first: Size, second: Size) -> Size:
    """The product of two numbers."""
    return first * second if isinstance(first, int) and isinstance(second, int) else f"({first}) * ({second})"


def wide(position: str, extent: int | str, stride: int | str) -> str:
    """Positions of 32 bits along a dimension, of 64 bits where an offset may be that large."""
    # A stride that is an argument has 64 bits, and so have its products.
    fits = isinstance(stride, str) or stride <= 1 or (isinstance(extent, int) and extent * stride < 2**31)
    return position if fits or position.endswith(".to(tl.int64)") else f"{position}.to(tl.int64)"
