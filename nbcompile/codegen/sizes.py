"""Run-time sizes: symbolic sizes as integers that each call of a graph computes first.

    s0 = arg0_1.size(0)          Value("size", 0, 0)
    2*s0 + 1                     Value("mul", RuntimeSize(0), 2), Value("add", RuntimeSize(1), 1)

One operation each, in topological order; common subexpressions are computed once.

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, which writes them as C++. Read next:
nbcompile/codegen/launch_plan.py
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy

from nbcompile.codegen.printers import python_index, python_number
from nbcompile.ir.buffer import SymbolSource
from nbcompile.ir.emitted import Number, PythonExpression, RuntimeSize, Value

OPERATIONS = {
    "Add": "add", "Mul": "mul", "FloorDiv": "floor_div", "CleanDiv": "floor_div", "Mod": "mod", "PythonMod": "mod",
    "Min": "min", "Max": "max",
}  # fmt: skip
"""The arithmetic of sizes, by the class in SymPy (torch's own classes among them)."""
OPERATORS: dict[type, str] = {ast.Add: "add", ast.Mult: "mul", ast.FloorDiv: "floor_div", ast.Mod: "mod"}
"""The same, by the class in a syntax tree."""
ON_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "mul": operator.mul, "floor_div": operator.floordiv, "mod": operator.mod, "min": min,
    "max": max,
}  # fmt: skip


class NeedsPython(Exception):
    """Error for a graph that needs the Python wrapper; the message is the reason."""


class Sizes:
    """Values of one graph, added on first use."""

    def __init__(self, sources: Sequence[SymbolSource]) -> None:
        self.values: list[Value] = []
        self.obstacle = ""
        """The first number that only Python can compute, as the reason why the graph needs the wrapper."""
        self._known: dict[sympy.Basic, Number] = {}
        self._by_name: dict[str, Number] = {}
        self._texts: dict[int, str] = {}
        for source in sources:
            kind = "argument" if source.dim is None else source.property
            size = self._value(kind, source.position, source.dim or 0)
            self._known[source.symbol] = self._by_name[source.symbol.name] = size
            self._texts[size.at] = source.symbol.name

    def number(self, value: object, write: Callable[[Any], str] = python_number) -> Any:
        """A number itself, or a reference to an expression's value; its text if it is no integer arithmetic."""
        try:
            return self._number(value)
        except NeedsPython as reason:
            self.obstacle = self.obstacle or str(reason)
            return PythonExpression(write(value))

    def index(self, value: object) -> Any:
        """A size, a stride or an offset, as :meth:`number`."""
        return self.number(value, python_index)

    def named(self, symbol: str) -> Number:
        """Value of a symbol that a kernel takes as a parameter."""
        return self._by_name[symbol]

    def texts(self) -> dict[int, str]:
        """Each value as Python, by its position."""
        known = {size.at: python_index(value) for value, size in self._known.items() if isinstance(size, RuntimeSize)}
        return known | self._texts

    def text(self, expression: str) -> Number:
        """Value of an expression in Python: whole numbers, symbols, ``+ - * // %``, ``min`` and ``max``; or -1."""
        try:
            return self._read(ast.parse(expression, mode="eval").body, expression)
        except NeedsPython as reason:
            self.obstacle = self.obstacle or str(reason)
            return -1

    def _number(self, value: object) -> Any:
        if not isinstance(value, sympy.Basic):
            return value
        if value.is_number:
            return int(value) if value.is_Integer else float(value)
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def _read(self, tree: ast.expr, whole: str) -> Number:
        match tree:
            case ast.Constant(int(number)):
                return number
            case ast.Name(symbol) if symbol in self._by_name:
                return self._by_name[symbol]
            # The launcher has no subtraction: ``a - b`` is ``a + b * -1``.
            case ast.UnaryOp(ast.USub(), operand):
                return self._folded("mul", self._read(operand, whole), -1)
            case ast.BinOp(left, ast.Sub(), right):
                return self._folded("add", self._read(left, whole), self._folded("mul", self._read(right, whole), -1))
            case ast.BinOp(left, symbol, right) if type(symbol) in OPERATORS:
                return self._folded(OPERATORS[type(symbol)], self._read(left, whole), self._read(right, whole))
            case ast.Call(ast.Name("min" | "max" as name), [first, second], []):
                return self._folded(name, self._read(first, whole), self._read(second, whole))
        raise NeedsPython(f"a size is not arithmetic of whole numbers: {whole}")

    def _folded(self, operation: str, first: Number, second: Number) -> Number:
        # SymPy has folded the constants of its formulas; a Python text may still have them:
        # ``8 - 2``.
        if isinstance(first, int) and isinstance(second, int):
            return ON_INTEGERS[operation](first, second)
        return self._value(operation, first, second)

    def _computed(self, expression: sympy.Basic) -> Number:
        operation, arguments = OPERATIONS.get(type(expression).__name__), expression.args
        # SymPy writes ``s0*s0`` as a power.
        if isinstance(expression, sympy.Pow) and expression.exp.is_Integer and expression.exp > 0:
            operation, arguments = "mul", (expression.base,) * int(expression.exp)
        if operation is None:
            raise NeedsPython(f"a size is not arithmetic of whole numbers: {expression}")
        # A sum of SymPy has any number of terms, a value two operands.
        total, *rest = map(self._number, arguments)
        for operand in rest:
            total = self._value(operation, total, operand)
        return total

    def _value(self, operation: str, first: object, second: object) -> RuntimeSize:
        # SymPy writes ``s0/2`` as a product with 1/2, which ``number`` converted to a float.
        if not (isinstance(first, (int, RuntimeSize)) and isinstance(second, (int, RuntimeSize))):
            raise NeedsPython("a size contains fractions")
        self.values.append(Value(operation, first, second))
        return RuntimeSize(len(self.values) - 1)
