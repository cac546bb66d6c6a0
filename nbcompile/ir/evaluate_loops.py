"""Loop nests of the reference evaluator: an expression, or a statement, for all iterations at once.

    for i0 < 64: for r0 < 8:        grids    i0: int64[64, 1]    r0: int64[1, 8]
        x[8*i0 + r0] + 1            value    x[8 * grid(i0) + grid(r0)] + 1, a tensor of 64 x 8

In torch: nothing (kernels are only ever compiled). Read next: nbcompile/ir/evaluate.py
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import sympy
import torch

from nbcompile.ir.eager_operations import EVALUATE, combine, scan, update_element
from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import FloorDiv, Index, Mod, Symbol, value_of
from nbcompile.ir.kernel import (
    Accumulate,
    Carry,
    Inner,
    Let,
    Store,
    Update,
)

Values = Mapping[Symbol, int]


class Scope:
    """A loop nest: its variables as grids, and the locals that are defined so far."""

    def __init__(
        self, values: Values, names: Sequence[Symbol], sizes: Sequence[int],
        load: Callable[[str, tuple[torch.Tensor, ...]], torch.Tensor],
    ) -> None:  # fmt: skip
        self.values = values
        self.names, self.shape, self.load = list(names), list(sizes), load
        self.locals: dict[str, torch.Tensor] = {}
        self.parent: Scope | None = None
        self.grids: dict[Symbol, torch.Tensor] = {
            # Sizes of 1 along the other loops: grids broadcast, and a value is as large as the loops
            # that it depends on.
            name: torch.arange(size).reshape([-1 if n == at else 1 for n in range(len(sizes))])
            for at, (name, size) in enumerate(zip(names, sizes, strict=True))
        }

    def nested(self, names: Sequence[Symbol], sizes: Sequence[int]) -> Scope:
        inner = Scope(self.values, [*self.names, *names], [*self.shape, *sizes], self.load)
        inner.parent = self
        return inner

    def full(self, body: Expr) -> torch.Tensor:
        """The body's value for every iteration."""
        return self.value(body, None, {}).expand(self.shape)

    def local(self, name: str) -> torch.Tensor:
        if name in self.locals:
            return self.locals[name]
        assert self.parent is not None, f"{name} is not defined here"
        # A local of the outer loops has one value for all inner iterations: dimensions of size 1 are appended.
        outer = self.parent.local(name)
        return outer.reshape(*outer.shape, *[1] * (len(self.shape) - len(self.parent.shape)))

    def value(self, body: Expr, mask: torch.Tensor | None, bound: Mapping[Symbol, torch.Tensor]) -> torch.Tensor:
        match body:
            case Constant(number, dtype):
                return torch.full([1] * len(self.shape), number, dtype=dtype)
            case IndexOf(index, dtype, gathers):
                return self.evaluate_index(index, self.gather_symbols(gathers, mask, bound)).to(dtype)
            case Local(name):
                return self.local(name)
            case Apply(operation, args, dtype):
                # Types are checked at each node, so that an error is found where it arises.
                result = EVALUATE[operation](
                    *(self.value(each, mask, bound) for each in args), *([dtype] if operation == "cast" else [])
                )
                assert isinstance(result, torch.Tensor)
                assert result.dtype == dtype, f"{operation} gives {result.dtype}, the tree says {dtype}"
                return result
            case Masked(condition, value, otherwise):
                holds = self.value(condition, mask, bound)
                inner_mask = holds if mask is None else holds & mask
                outer_mask = ~holds if mask is None else ~holds & mask
                return torch.where(
                    holds, self.value(value, inner_mask, bound), self.value(otherwise, outer_mask, bound)
                )
            case Load(buffer, index, dtype, gathers):
                symbols = self.gather_symbols(gathers, mask, bound)
                indices = tuple(self.evaluate_index(each, symbols) for each in index)
                if mask is not None:
                    # A masked-out element may have an index outside of the buffer: element 0 is loaded instead.
                    indices = tuple(torch.where(mask, index, 0) for index in indices)
                    # An empty buffer has no element 0.
                    if not mask.any():
                        return torch.zeros([1] * len(self.shape), dtype=dtype)
                result = self.load(buffer, indices)
                assert result.dtype == dtype, f"{buffer} is {result.dtype}, the load says {dtype}"
                # A buffer without dimensions is one number for all iterations.
                return result.reshape([1] * len(self.shape)) if result.dim() == 0 else result
            case _:
                assert_never(body)

    def gather_symbols(
        self, gathers: tuple[Gather, ...], mask: torch.Tensor | None, bound: Mapping[Symbol, torch.Tensor]
    ) -> dict[Symbol, torch.Tensor]:
        symbols = dict(bound)
        for gather in gathers:
            found = self.value(gather.value, mask, bound)
            size = value_of(gather.size, self.values)
            if mask is not None:
                found = torch.where(mask, found, 0)
            # A loop nest without iterations gathers nothing, so no index is out of range.
            if bool(((found < (-size if gather.wraps else 0)) | (found >= size)).any()) and 0 not in self.shape:
                raise IndexError("index out of range in self")
            symbols[gather.symbol] = torch.where(found < 0, found + size, found)
        return symbols

    def evaluate_index(self, expression: Index, symbols: Mapping[Symbol, torch.Tensor]) -> torch.Tensor:
        """An index expression for every iteration."""
        if isinstance(expression, sympy.Integer):
            return torch.full([1] * len(self.shape), int(expression))
        if isinstance(expression, sympy.Symbol):
            if expression in symbols:
                return symbols[expression]
            if expression in self.grids:
                return self.grids[expression]
            return torch.full([1] * len(self.shape), self.values[expression])
        parts = [self.evaluate_index(each, symbols) for each in expression.args]
        if isinstance(expression, sympy.Add):
            return functools.reduce(operator.add, parts)
        if isinstance(expression, sympy.Mul):
            return functools.reduce(operator.mul, parts)
        if isinstance(expression, FloorDiv):
            return torch.div(parts[0], parts[1], rounding_mode="floor")
        if isinstance(expression, (Mod, sympy.Mod)) or type(expression).__name__ == "PythonMod":
            return torch.remainder(parts[0], parts[1])
        if isinstance(expression, sympy.Pow):
            return torch.pow(parts[0], parts[1])
        extremum = {"Max": torch.maximum, "Min": torch.minimum}.get(type(expression).__name__)
        if extremum is not None:
            return functools.reduce(extremum, parts)
        raise NotImplementedError(f"{type(expression).__name__} in the index {expression}")


class KernelRun:
    """One launch of a kernel: its pointers, and the scratch rows of every outer iteration."""

    def __init__(self, memory: dict[str, torch.Tensor], scratch: dict[str, torch.Tensor], rows: list[int]) -> None:
        self.memory, self.scratch, self.rows = memory, scratch, rows

    def _row(self, name: str, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ndim = index.dim()
        outer = [torch.arange(n).reshape([-1 if m == at else 1 for m in range(ndim)]) for at, n in enumerate(self.rows)]
        return (*outer, index)

    def load(self, name: str, position: tuple[torch.Tensor, ...]) -> torch.Tensor:
        (index,) = position
        if name in self.scratch:
            return self.scratch[name][self._row(name, index)]
        return self.memory[name][index]

    def execute(self, statement: Inner, scope: Scope, outer: Scope) -> None:
        match statement:
            case Let(name, value):
                scope.locals[name] = scope.full(value)
            case Store(name, offset, value):
                result = scope.full(value)
                index = scope.evaluate_index(offset, {}).expand(scope.shape)
                if name in self.scratch:
                    self.scratch[name][self._row(name, index)] = result
                else:
                    assert self.memory[name].dtype == result.dtype, f"{name} is not {result.dtype}"
                    self.memory[name][index] = result
            case Update(name, position, value, kind):
                # One by one, in row-major order: two may update the same element.
                changes = zip(scope.full(position).flatten(), scope.full(value).flatten(), strict=True)
                for element, new in changes:
                    update_element(self.memory[name], (element,), kind, new)
            case Accumulate(name, kind, value, where):
                # The result belongs to the loops around the nest.
                inner = len(scope.shape) - len(outer.shape)
                indices = scope.evaluate_index(where, {}).expand(scope.shape) if kind[:3] == "arg" else None
                outer.locals[name] = combine(kind, scope.full(value), indices, inner)
            case Carry(name, kind, value, where):
                scope.locals[name] = scan(
                    kind, scope.full(value), scope.evaluate_index(where, {}).expand(scope.shape), -1
                )
            case _:
                assert_never(statement)
