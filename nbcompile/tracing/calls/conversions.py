"""Conversions of values while tracing: ``int(x)``, ``str(x)``, ``bool(x)``, ``abs(x)``, ``round(x)``.

    int(tensor)      a symbol of the graph (``item``), no guard on the value
    float("1.5")     computed now
    str([1, 2])      computed now, where all items are constants

In torch: torch/_dynamo/variables/builtin.py. Read next: extremes.py
"""

from __future__ import annotations

import operator
import types
from collections.abc import Sequence
from typing import TypeVar

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import special_results, strings
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    is_deferred,
    realise,
    realise_unless_deferred,
)
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.deferred import DeferredVariable, can_be_deferred
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.known_callables import BuiltinVariable
from nbcompile.tracing.variables.known_values import has_program_methods, whole
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.representations import representation
from nbcompile.tracing.variables.strings import NumberTextVariable, TextVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

Value = TypeVar("Value")


def convert(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``int(x)``, ``float(x)``, ``str(x)``..."""
    if (deferred_result := _deferred_as(cls, arguments, keywords)) is not None:
        return deferred_result
    values = [realise(tracer, value) for value in (*arguments, *keywords.values())]
    if all(value.is_constant() for value in values):
        plain = [value.constant() for value in values]
        return ConstantVariable(tracer.evaluate(cls, *_as_given(plain, arguments, keywords)))
    if len(values) == 1 and (number := _graph_number(tracer, cls, values[0])) is not None:
        return number
    # Other conversions with a symbolic argument (int(text, s0), bytes(s0)) have no symbolic
    # result: the number becomes a constant, with a guard.
    if any(isinstance(value, SymbolicVariable) for value in values):
        return convert(tracer, cls, *_as_given([_specialised(value) for value in values], arguments, keywords))
    if len(values) > 1:
        types = ", ".join(value.type_name() for value in values)
        raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"{cls.__name__}(...)", name=cls.__name__, types=types)
    return _object_as(tracer, cls, values[0])


def _deferred_as(cls: type, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    """A deferred value as a text, or unchanged; None for any other value."""
    if keywords or len(arguments) != 1 or not is_deferred(arguments[0]):
        return None
    if cls not in (str, arguments[0].python_type()):
        return None
    return strings.as_text(arguments[0]) if cls is str else arguments[0]


_CONVERSIONS = {int: "__int__", float: "__float__", complex: "__complex__", str: "__str__", bytes: "__bytes__"}
"""The method for the conversion into a type."""


def _as_given(
    values: Sequence[Value], arguments: Arguments, keywords: Keywords
) -> tuple[list[Value], dict[str, Value]]:
    """Values of positional and of keyword arguments, separated again."""
    positional = list(values[: len(arguments)])
    return positional, dict(zip(keywords, values[len(arguments) :], strict=True))


def _graph_number(tracer: Tracer, cls: type, value: VariableTracker) -> VariableTracker | None:
    """A tensor of one element or a symbol as a number: a node of the graph, without a guard on the value."""
    if isinstance(value, NdarrayVariable) and cls in (int, float, complex):
        value = value.call_method(tracer, "item", [], {})
        if value.is_constant():  # np.ceil(2.5): fake tensors store the value of results of constants
            return convert(tracer, cls, [value], {})
    if isinstance(value, TensorVariable) and cls in (int, float, complex):
        number = value.call_method(tracer, _CONVERSIONS[cls], [], {})
        return number if number.python_type() in (cls, bool) else convert(tracer, cls, [number], {})
    if isinstance(value, SymbolicVariable) and cls in (int, float, str):
        return _symbol_as(tracer, cls, value)
    return None


def _symbol_as(tracer: Tracer, cls: type, value: SymbolicVariable) -> VariableTracker:
    if cls is str:
        return strings.of_number(value, "{!s}")
    if value.python_type() is bool:  # SymPy cannot convert a truth value to a number: later operations would fail
        return ConstantVariable(cls(value.specialise())) if value.is_unbacked() else DeferredVariable(cls, [value])
    is_int = cls is int and value.python_type() is int
    return value if is_int else tracer.apply(torch.sym_int if cls is int else torch.sym_float, (value,))


def _object_as(tracer: Tracer, cls: type, value: VariableTracker) -> VariableTracker:
    """Convert by the method that the object's class defines."""
    if cls is str:
        return to_text(tracer, value, "")
    if isinstance(value, ObjectVariable):
        # CPython's order (PyNumber_Long, PyNumber_Float): if a class has both methods, __index__ is not called.
        for name in (_CONVERSIONS[cls], "__index__"):
            if value.has_special(tracer, name):
                number = special_results.checked(tracer, name, tracer.call_special(value, name, []), value)
                return number if name == _CONVERSIONS[cls] else convert(tracer, cls, [number], {})
    elif cls is bytes and not value.lacks("__iter__"):
        return _bytes_of(tracer, value)
    raise _untraced(cls, value)


def _bytes_of(tracer: Tracer, items: VariableTracker) -> VariableTracker:
    """``bytes(items)``: an item that is no byte ends the conversion, and an iterator keeps the items after it."""
    # As CPython does, which reads one item and checks it before it reads the next.
    found = b""
    iterator = realise(tracer, items.iterate(tracer))
    while (item := iterator.next_item(tracer)) is not None:
        if not (number := realise(tracer, item)).is_constant():
            raise _untraced(bytes, number)
        found += bytes(tracer.evaluate(bytes, ([number.constant()],)))  # type: ignore[call-overload]
    return ConstantVariable(found)


def _untraced(cls: type, value: VariableTracker) -> Exception:
    return breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"{cls.__name__}({value.describe()})", name=cls.__name__, types=value.type_name()
    )


def _specialised(value: VariableTracker) -> VariableTracker:
    return ConstantVariable(value.specialise()) if isinstance(value, SymbolicVariable) else value


def to_text(tracer: Tracer, value: VariableTracker, conversion: str) -> VariableTracker:
    """``str(value)`` or ``repr(value)`` (conversion ``"r"``) of a value that is no constant."""
    if isinstance(value, ObjectVariable):
        # ``str`` falls back to ``__repr__``, and ``repr`` never to ``__str__``.
        for name in ("__repr__",) if conversion == "r" else ("__str__", "__repr__"):
            if value.has_special(tracer, name):
                return tracer.call_special(value, name, [])
    if (text := representation(tracer, value)) is not None:
        return text
    if (known := _known_text(tracer, value, conversion)) is not None:
        return ConstantVariable(known)
    if isinstance(value, ExceptionVariable):
        return value.call_method(tracer, "__repr__" if conversion == "r" else "__str__", [], {})
    if isinstance(value, TextVariable) and not conversion:
        return value
    # The text of a tensor is created after the graph has run.
    if isinstance(value, TensorVariable) or (isinstance(value, SymbolicVariable) and value.is_unbacked()):
        return TextVariable("{!r}" if conversion == "r" else "{!s}", [value])
    raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"str({value.describe()})", name="str", types=value.type_name())


def _known_text(tracer: Tracer, value: VariableTracker, conversion: str) -> str | None:
    """The text of a value that is known while tracing; None for any other one."""
    if isinstance(value, ClassVariable):
        return repr(value.value)
    if isinstance(value, ContainerVariable) and (known := whole(tracer, value)) is not None:
        return repr(known[0])
    if isinstance(value, SymbolicVariable) and not value.is_unbacked():
        return repr(value.specialise())
    if isinstance(value, MappingProxyVariable):
        inside = realise(tracer, to_text(tracer, value.mapping, "r"))
        if inside.is_constant():
            return f"mappingproxy({inside.constant()})" if conversion == "r" else str(inside.constant())
    # Only a builtin of a module: the text of a bound one has the object's address.
    if isinstance(value, BuiltinVariable) and isinstance(getattr(value.value, "__self__", None), types.ModuleType):
        return repr(value.value)
    return None


@handles(repr)
def _repr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise_unless_deferred(tracer, arguments[0])
    if is_deferred(value):
        return NumberTextVariable("{!r}", [value])
    if value.is_constant() and not has_program_methods(value):
        return ConstantVariable(repr(value.constant()))
    if isinstance(value, SymbolicVariable):
        return strings.of_number(value, "{!r}")
    return to_text(tracer, value, "r")


@handles(format)
def _format(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.format_value(
        realise(tracer, arguments[0]), realise(tracer, arguments[1]) if len(arguments) > 1 else ConstantVariable("")
    )


@handles(bool)
def _bool(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments:
        return ConstantVariable(False)
    value = realise(tracer, arguments[0])
    if isinstance(value, TensorVariable):
        return value.call_method(tracer, "__bool__", [], {})
    if isinstance(value, SymbolicVariable):
        return value if value.python_type() is bool else tracer.apply(operator.ne, (value, ConstantVariable(0)))
    return ConstantVariable(value.truth(tracer))


@handles(abs, operator.abs)
def _abs(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return one(tracer, abs, "__abs__", arguments)


@handles(round)
def _round(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value, *digits = (realise(tracer, each) for each in (*arguments, *keywords.values()))
    if isinstance(value, SymbolicVariable):
        kind = value.python_type()
        if kind is float or (kind is int and not digits):
            return tracer.apply_method("__round__", (value, *digits))
        if kind is int and len(digits) == 1 and digits[0].python_type() is int and can_be_deferred([value, *digits]):
            return DeferredVariable(round, [value, *digits])
        value = _specialised(value)  # torch's symbols take an int for round already, and truth values have no method
    return one(tracer, round, "__round__", [value, *digits])


def one(tracer: Tracer, function: object, method: str, arguments: Arguments) -> VariableTracker:
    """A function of one value that calls a special method: ``abs``, ``round``, ``math.floor``."""
    value, *rest = (realise(tracer, each) for each in arguments)
    if value.is_constant() and all(each.is_constant() for each in rest):
        return ConstantVariable(tracer.evaluate(function, (value.constant(), *(each.constant() for each in rest))))
    if isinstance(value, TensorVariable) and hasattr(torch.Tensor, method):
        return tracer.apply(operator.abs if function is abs else function, (value, *rest))
    if isinstance(value, SymbolicVariable):
        return tracer.apply(operator.abs if function is abs else function, (value, *rest))
    # Tensors have only __abs__ of these special methods: math.floor and
    # math.ceil then convert to a float, which reads the data, and round raises.
    if isinstance(value, TensorVariable):
        name = method.strip("_")
        raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"{name}({value.describe()})", name=name, types="Tensor")
    return tracer.call_special(value, method, rest)
