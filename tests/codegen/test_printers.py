"""Sizes and symbolic numbers as Python text, and divisions as Triton text."""

import math

import pytest
import sympy
import torch
from torch.utils._sympy import functions

import nbcompile
from nbcompile.codegen.printers import TRITON, print_index, python_index
from nbcompile.ir.index import FloorDiv, Mod, loop_variable

NUMBER = sympy.Symbol("n", real=True)
ROUNDINGS = {
    functions.FloorToInt: math.floor,
    functions.CeilToInt: math.ceil,
    functions.TruncToInt: math.trunc,
    functions.RoundToInt: round,
}


@pytest.mark.parametrize("kind", ROUNDINGS, ids=lambda kind: kind.__name__)
def test_a_rounded_number_as_python(kind):
    """The text of a rounding function computes the value of Python's function."""
    for negated in (False, True):
        text = python_index(kind(-NUMBER if negated else NUMBER) + 1)
        for value in (-2.5, -0.5, 0.0, 0.5, 1.5, 2.0, 2.75, 1e15 + 0.5):
            expected = ROUNDINGS[kind](-value if negated else value) + 1
            assert eval(text, {"n": value}) == expected, (text, value)  # noqa: S307  # the text is generated


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: (x + 1, math.floor(n), math.ceil(-n), math.trunc(n)),
        lambda x, n: (x + 1, int(n) ^ 5, abs(int(n) - 9), int(n) & 6, int(n) | 3),
        lambda x, n: (x + 1, abs(x.shape[0] ^ 7)),
    ],
)
def test_numbers_that_a_graph_returns(function):
    """A graph that returns such numbers is generated code, for each value."""
    compiled = nbcompile.compile(function, dynamic=True)
    for size, number in ((3, 2.5), (5, -3.5), (6, 4.0)):
        expected, found = function(torch.ones(size), number), compiled(torch.ones(size), number)
        assert found[1:] == expected[1:]
        assert torch.equal(found[0], expected[0])


SIZES = {
    "abs": lambda n, m: abs(n - 9),
    "xor": lambda n, m: n ^ 5,
    "xor_of_two": lambda n, m: n ^ m,
    "and": lambda n, m: 5 & n,
    "or": lambda n, m: n | m,
    "invert": lambda n, m: ~n,
    "shift": lambda n, m: (n & 7) << 1 >> 1,
    "shifted_by_a_size": lambda n, m: 1 << n,
    "power": lambda n, m: 2**n,
    "power_of_a_negative_number": lambda n, m: pow(-2, n),
    "power_of_a_remainder": lambda n, m: pow(n, 2, 5),
    "divmod": lambda n, m: divmod(n, m)[0] + divmod(7, n)[1],
    "negative_divisor": lambda n, m: n // -2,
    "floor": lambda n, m: math.floor(n / 2),
    "ceil": lambda n, m: math.ceil(n / 3),
    "trunc": lambda n, m: math.trunc(-n / 3),
    "round": lambda n, m: round(n / 2),
    "sum": lambda n, m: (n ^ 5) * 2 + (m & 3),
    "sqrt": lambda n, m: int(math.sqrt(n)),
}
NUMBERS = {
    "equal": lambda n, m: n == 4,
    "and": lambda n, m: (n > 3) & (m > 3),
    "or": lambda n, m: (n > 3) | (m > 9),
    "bit": lambda n, m: (n & 1) == 0,
    "sqrt": lambda n, m: math.sqrt(n),
    "log2": lambda n, m: math.log2(n) + math.exp(m),
    "quotient": lambda n, m: n / m,
    "mixed": lambda n, m: (n ^ m) * math.sin(n) - math.tanh(m / 2),
}


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_kernels_loop_over(name, dynamic):
    """Python's operators on integers are sizes in generated code, and operands of kernels."""

    def f(x):
        size = SIZES[name](*x.shape)
        return x.new_ones(abs(size)).cumsum(0) + size, x * size, size

    _equal_to_eager(f, dynamic)


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_sizes_that_a_graph_returns(name):
    """Comparisons and ``math`` functions of sizes are returned by generated code."""

    def f(x):
        number = NUMBERS[name](*x.shape)
        return x + 1, number

    _equal_to_eager(f, True)


def _equal_to_eager(f, dynamic):
    nbcompile.reset()  # the functions of all tests share one code object
    compiled = nbcompile.compile(f, dynamic=dynamic)
    for shape in ((4, 5), (6, 5), (7, 3), (9, 9)):
        x = torch.arange(float(math.prod(shape))).reshape(shape)
        for expected, found in zip(f(x), compiled(x), strict=True):
            assert type(found) is type(expected)
            assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected


class Truncated(int):
    """An integer whose division rounds towards zero, as in C and Triton."""

    def __add__(self, other):
        return Truncated(int(self) + int(other))

    def __sub__(self, other):
        return Truncated(int(self) - int(other))

    def __mul__(self, other):
        return Truncated(int(self) * int(other))

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return Truncated(int(self) // other if self >= 0 else -(-int(self) // other))

    def __mod__(self, other):
        return self - self // other * other


@pytest.mark.parametrize("divide", [FloorDiv, Mod])
def test_a_division_of_what_may_be_negative_rounds_down_in_triton(divide):
    """Triton's division rounds towards zero, so the text corrects it, unless both operands are non-negative."""
    variable = loop_variable(0)
    expression = divide(variable - 7, sympy.Integer(5))
    text = print_index(expression, TRITON)
    found = [eval(text, {"i0": Truncated(value)}) for value in range(20)]  # noqa: S307  # the text is generated
    assert found == [(value - 7) // 5 if divide is FloorDiv else (value - 7) % 5 for value in range(20)]
    assert print_index(divide(variable, sympy.Integer(5)), TRITON) == f"(i0 {'//' if divide is FloorDiv else '%'} 5)"
