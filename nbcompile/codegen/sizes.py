"""Run-time sizes: symbolic sizes as integers that each call of a graph computes first.

    s0 = arg0_1.size(0)          Value("size", 0, 0)
    2*s0 + 1                     Value("mul", RuntimeSize(0), 2), Value("add", RuntimeSize(1), 1)

One operation each, in topological order; common subexpressions are computed once.

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, which writes them as C++. Read next:
nbcompile/codegen/launch_plan.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from nbcompile.ir.buffer import SymbolSource
from nbcompile.ir.emitted import Number, RuntimeSize, Value

OPERATIONS = {
    "Add": "add", "Mul": "mul", "FloorDiv": "floor_div", "CleanDiv": "floor_div", "Mod": "mod", "PythonMod": "mod",
    "Min": "min", "Max": "max",
}  # fmt: skip
"""The arithmetic of sizes, by the class in SymPy (torch's own classes among them)."""


class NeedsPython(Exception):
    """The graph needs the Python wrapper; the message says why."""


class Sizes:
    """Values of one graph, added on first use."""

    def __init__(self, sources: Sequence[SymbolSource]) -> None:
        self.values: list[Value] = []
        self._known: dict[sympy.Basic, Number] = {}
        for source in sources:
            kind = "argument" if source.dim is None else source.property
            self._known[source.symbol] = self._value(kind, source.position, source.dim or 0)
        self._by_name = {source.symbol.name: self._known[source.symbol] for source in sources}

    def number(self, value: object) -> Any:
        """A number as it is, an expression as a reference to its value.

        Raises:
            NeedsPython: it is more than arithmetic of whole numbers.
        """
        if not isinstance(value, sympy.Basic):
            return value
        if value.is_number:
            return int(value) if value.is_Integer else float(value)
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def named(self, symbol: str) -> Number:
        """Value of a symbol that a kernel takes as a parameter."""
        return self._by_name[symbol]

    def _computed(self, expression: sympy.Basic) -> Number:
        operation, arguments = OPERATIONS.get(type(expression).__name__), expression.args
        if isinstance(expression, sympy.Pow) and expression.exp.is_Integer and expression.exp > 0:
            operation, arguments = "mul", (expression.base,) * int(expression.exp)
        if operation is None:
            raise NeedsPython(f"a size is not arithmetic of whole numbers: {expression}")
        total, *rest = map(self.number, arguments)
        for operand in rest:
            total = self._value(operation, total, operand)
        return total

    def _value(self, operation: str, first: object, second: object) -> RuntimeSize:
        if not (isinstance(first, (int, RuntimeSize)) and isinstance(second, (int, RuntimeSize))):
            raise NeedsPython("a size is made of fractions")
        self.values.append(Value(operation, first, second))
        return RuntimeSize(len(self.values) - 1)
