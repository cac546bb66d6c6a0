"""Texts of sizes: the same number in Python and in Triton, and offsets that are wide enough."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import sympy
from torch.utils._sympy.functions import IntTrueDiv, TruncToInt

from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.triton_sizes import added, multiplied, quotient, size_text, wide
from nbcompile.ir.index import FloorDiv, Max, Min, Mod, index


@dataclass
class Truncated:
    """An integer whose quotients are rounded towards zero, as in C."""

    value: int

    def __add__(self, other):
        return Truncated(self.value + number(other))

    def __sub__(self, other):
        return Truncated(self.value - number(other))

    def __mul__(self, other):
        return Truncated(self.value * number(other))

    def __floordiv__(self, other):
        return Truncated(int(self.value / number(other)))

    def __mod__(self, other):
        return self - (self // other) * number(other)

    __radd__, __rmul__ = __add__, __mul__


def number(given) -> int:
    return given.value if isinstance(given, Truncated) else given


def test_a_quotient_is_rounded_as_in_python():
    """Python evaluates the text for the grid, and a GPU for the kernel: quotients are rounded down in both."""
    size = sympy.Symbol("s0", integer=True, positive=True)
    text = size_text(-FloorDiv(-size, 4) + 2 * Mod(size, 3))
    assert isinstance(text, str)
    for number in range(1, 20):
        expected = -(-number // 4) + 2 * (number % 3)
        assert eval(text, {"s0": number}) == eval(text, {"s0": Truncated(number)}).value == expected


def test_a_size_that_is_not_written_alike_is_rejected():
    """A function, a condition or a power that one of the languages lacks is rejected."""
    size = sympy.Symbol("s0", integer=True, positive=True)
    assert size_text(index(7)) == 7
    assert size_text(size**2) == "s0*s0"
    for rejected in (Max(size, 4), Min(size, 4), sympy.Abs(size - 3), TruncToInt(IntTrueDiv(size, 2))):
        with pytest.raises(UnprintableIndex):
            size_text(rejected)


def test_positions_are_wide_where_offsets_may_be():
    """An offset above 2**31 has 64 bits; an argument always has 64 bits."""
    assert wide("column", 4096, 4096) == "column"
    assert wide("column", 4096, 2**19) == "column.to(tl.int64)"
    assert wide("column", "s0", 4096) == "column.to(tl.int64)"
    assert wide("column", "s0", 1) == "column"
    assert wide("column", "s0", "s1") == "column"
    assert wide("row.to(tl.int64)", "s0", 4096) == "row.to(tl.int64)"


def test_arithmetic_of_numbers_and_texts():
    """Arithmetic of numbers is folded; a text is put in parentheses."""
    assert (quotient(100, 64), added(3, 4), multiplied(3, 4)) == (2, 7, 12)
    text = multiplied(added(quotient("s0 - 1", 64), 2), "s1 + 1")
    assert isinstance(text, str)
    assert eval(text, {"s0": 130, "s1": 4}) == (3 + 2) * 5
