"""Run-time sizes as operations of the launcher."""

from __future__ import annotations

import pytest
import sympy

from nbcompile.codegen.sizes import ON_INTEGERS, Sizes
from nbcompile.ir.buffer import SymbolSource
from nbcompile.ir.emitted import PythonExpression, RuntimeSize

s, t = sympy.Symbol("s", integer=True, positive=True), sympy.Symbol("t", integer=True, positive=True)


def sizes():
    """``s`` is a dim of argument 0, ``t`` is argument 1 itself."""
    return Sizes([SymbolSource(s, 0, 2), SymbolSource(t, 1)])


def run(found, number, **values):
    """The numbers that the launcher computes."""
    if not isinstance(number, RuntimeSize):
        return number
    results = []
    for value in found.values:
        operands = [results[each.at] if isinstance(each, RuntimeSize) else each for each in (value.first, value.second)]
        read = {"size": values.get("s"), "argument": values.get("t")}
        results.append(read[value.operation] if value.operation in read else ON_INTEGERS[value.operation](*operands))
    return results[number.at]


@pytest.mark.parametrize("expression", [
    2 * s + 1, s * t - 3, s**3, (s + t) ** 2, sympy.Max(s, t), sympy.Min(s, 4) + t, sympy.Integer(7),
])  # fmt: skip
def test_formulas_mean_what_sympy_says(expression):
    """Sums and powers with several operands are split into operations with two operands."""
    found = sizes()
    assert run(found, found.number(expression), s=5, t=3) == expression.subs({s: 5, t: 3})


@pytest.mark.parametrize("text", ["s", "2*s + 1", "-(s - 2*t) // 2", "(s + 7) // 8 * 8", "min(s, t) % 2", "8 - 2"])
def test_texts_mean_what_python_says(text):
    """The grids of Triton kernels are texts, with Python's meaning."""
    found = sizes()
    assert run(found, found.text(text), s=5, t=3) == eval(text, {"s": 5, "t": 3})


def test_common_subexpressions_are_computed_once():
    """``s*t`` is computed once for a size and a stride."""
    found = sizes()
    found.number(s * t)
    before = len(found.values)
    assert found.number(s * t + 1) is not None and len(found.values) == before + 1


@pytest.mark.parametrize(
    ("expression", "text"), [(s / 2, "(s / 2)"), (sympy.sqrt(s), None), (s**-1, None)], ids=["half", "root", "inverse"]
)
def test_what_is_no_arithmetic_of_integers_needs_python(expression, text):
    """A function that is no integer arithmetic needs Python: the graph has no plan, with the number as the reason."""
    found = sizes()
    written = found.number(expression)
    assert isinstance(written, PythonExpression)
    if text is not None:
        assert eval(written.text, {"s": 5}) == 2.5
    assert found.obstacle
    first = found.obstacle
    assert found.text("s.bit_length()") == -1
    assert found.obstacle == first
