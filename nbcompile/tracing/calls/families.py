"""Families of functions: operators, conversions, ``math``; one handler per member.

    operator.add(a, b)     a + b
    max(xs, key=f)         one comparison after the other
    math.sqrt(2.0)         computed now

In torch: torch/_dynamo/variables/builtin.py. Read next: torch_functions.py
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.calls import comparisons, conversions, deferred, extremes, folding, operations, operator_table
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import special_results
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.known_callables import Handler
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

SYMBOLIC_MATH: Mapping[Any, Any] = {
    function: vars(torch)[f"_sym_{name}"] for name, function in vars(math).items() if f"_sym_{name}" in vars(torch)
}
"""Functions of math, and their symbolic forms."""


def _rounding(function: Callable[..., Any], method: str) -> Handler:
    return lambda tracer, arguments, keywords: conversions.one(tracer, function, method, arguments)


def _extreme(function: Callable[..., Any], symbol: str) -> Handler:
    return lambda tracer, arguments, keywords: extremes.extreme(tracer, function, symbol, arguments, keywords)


def _conversion(cls: type) -> Handler:
    return lambda tracer, arguments, keywords: conversions.convert(tracer, cls, arguments, keywords)


def _pure(function: Callable[..., Any]) -> Handler:
    return lambda tracer, arguments, keywords: _math(tracer, function, arguments, keywords)


def _pair(tracer: Tracer, arguments: Arguments) -> tuple[VariableTracker, VariableTracker]:
    left, right = arguments
    return realise(tracer, left), realise(tracer, right)


def _binary(symbol: str, *, in_place: bool) -> Handler:
    return lambda tracer, arguments, keywords: operations.binary(
        tracer, symbol, *_pair(tracer, arguments), in_place=in_place
    )


def _comparison(symbol: str) -> Handler:
    return lambda tracer, arguments, keywords: comparisons.compare(tracer, symbol, *_pair(tracer, arguments))


def _unary(symbol: str) -> Handler:
    return lambda tracer, arguments, keywords: operations.unary(tracer, symbol, realise(tracer, arguments[0]))


def _identity(*, same: bool) -> Handler:
    return lambda tracer, arguments, keywords: ConstantVariable(
        comparisons.is_same(tracer, *_pair(tracer, arguments)) is same
    )


def _math(tracer: Tracer, function: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if (deferred_result := deferred.function(tracer, function, arguments, keywords)) is not None:
        return deferred_result
    values = [realise(tracer, each) for each in arguments]
    # Some functions of ``math`` have a form for symbols; for the others a symbol is specialised to its number.
    if any(isinstance(each, SymbolicVariable) for each in values):
        if function in SYMBOLIC_MATH:
            return tracer.apply(SYMBOLIC_MATH[function], values)
        values = [
            ConstantVariable(value.specialise()) if isinstance(value, SymbolicVariable) else value for value in values
        ]
    if any(isinstance(each, TensorVariable) for each in values):
        name = getattr(function, "__name__", "")
        raise breaks.unsupported(breaks.BUILTIN_FUNCTION, f"math.{name} of a tensor", name=f"math.{name}")
    # ``math.prod`` of symbols as products, so that nothing is specialised.
    if function is math.prod and not values[0].is_constant():
        total: VariableTracker = keywords.get("start", ConstantVariable(1))
        for item in values[0].unpack(tracer):
            total = operations.binary(tracer, "*", total, realise(tracer, item))
        return total
    return folding.fold(tracer, function, values, keywords)


_ROUNDINGS: dict[Any, str] = {math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__"}
_ITERATING = (math.fsum, math.dist, getattr(math, "sumprod", None))  # library.py: they have polyfills
_MATH = [each for each in vars(math).values() if callable(each) and each not in (*_ROUNDINGS, *_ITERATING)]

FAMILIES: list[tuple[Any, Handler]] = [
    *((function, _rounding(function, method)) for function, method in _ROUNDINGS.items()),
    (min, _extreme(min, "<")),
    (max, _extreme(max, ">")),
    *((cls, _conversion(cls)) for cls in (int, float, complex, str, bytes)),
    *((function, _pure(function)) for function in (chr, ord, bin, hex, oct, ascii, *_MATH)),
    *((rule.function, _binary(symbol, in_place=False)) for symbol, rule in operator_table.BINARY.items()),
    *((rule.in_place, _binary(symbol, in_place=True)) for symbol, rule in operator_table.BINARY.items()),
    *((rule.function, _comparison(symbol)) for symbol, rule in operator_table.COMPARISONS.items()),
    *((function, _unary(symbol)) for symbol, (function, _) in operator_table.UNARY.items()),
    (operator.is_, _identity(same=True)),
    (operator.is_not, _identity(same=False)),
]
for _member, _handler in FAMILIES:
    handles(_member)(_handler)


@handles(operator.getitem)
def _getitem(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, key = (realise(tracer, each) for each in arguments)
    return owner.get_item(tracer, key)


@handles(operator.setitem)
def _setitem(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, key, value = (realise(tracer, each) for each in arguments)
    owner.set_item(tracer, key, value)
    return ConstantVariable(None)


@handles(divmod)
def _divmod(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    values = [realise(tracer, each) for each in arguments]
    # Of sizes as two operators, so that nothing is specialised.
    if len(values) == 2 and comparisons.depend_on_sizes(values):
        left, right = values
        return TupleVariable([operations.binary(tracer, symbol, left, right) for symbol in ("//", "%")])
    return folding.fold(tracer, divmod, values, keywords)


@handles(operator.not_)
def _not(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(not realise(tracer, arguments[0]).truth(tracer))


@handles(operator.truth)
def _truth(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(realise(tracer, arguments[0]).truth(tracer))


@handles(operator.index)
def _index(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0])
    if isinstance(value, SymbolicVariable) and value.python_type() is not int:
        value = ConstantVariable(value.specialise())
    if value.is_constant():
        return folding.fold(tracer, operator.index, [value], {})
    if isinstance(value, SymbolicVariable):
        return value
    return special_results.checked(tracer, "__index__", tracer.call_special(value, "__index__", []), value)
