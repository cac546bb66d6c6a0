"""Strings that the traced program builds: f-strings, ``format``, ``str.format``.

    f"n={n}"       with n known: a constant; with a tensor: made after the graph has run

In torch: torch/_dynamo/variables/misc.py (StringFormatVariable). Read next:
nbcompile/tracing/handlers/operators.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbcompile.tracing import breaks
from nbcompile.tracing.functions.builtins import to_text
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.strings import TextVariable, joined
from nbcompile.tracing.variables.tensor import SymbolicVariable, TensorVariable


def format_value(tracer: Tracer, value: VariableTracker, specification: VariableTracker) -> VariableTracker:
    """``format(value, specification)``."""
    if isinstance(value, SymbolicVariable):
        value = ConstantVariable(value.specialise())
    if value.is_constant() and specification.is_constant():
        return ConstantVariable(tracer.evaluate(format, (value.constant(), specification.constant())))
    if isinstance(value, ObjectVariable) and value.has_special("__format__"):
        return tracer.call_special(value, "__format__", [specification])
    if specification.is_constant() and isinstance(value, TensorVariable):
        return TextVariable(f"{{:{specification.constant()}}}", [value])
    if specification.is_constant() and specification.constant() == "":
        return value if isinstance(value, TextVariable) else to_text(tracer, value, "")
    raise breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"format({value.describe()})", name="format", types=value.type_name()
    )


def convert(tracer: Tracer, value: VariableTracker, conversion: str) -> VariableTracker:
    """``!s``, ``!r``, ``!a`` or nothing."""
    if not conversion:
        return value
    if value.is_constant():
        function = {"s": str, "r": repr, "a": ascii}[conversion]
        return ConstantVariable(tracer.evaluate(function, (value.constant(),)))
    return to_text(tracer, value, "r" if conversion in "ra" else "")


def join(tracer: Tracer, parts: Sequence[VariableTracker]) -> VariableTracker:
    """All parts as one string."""
    if any(isinstance(each, TextVariable) for each in parts):
        return joined(parts)
    return ConstantVariable("".join(str(each.constant()) for each in parts))


def format_string(
    tracer: Tracer, template: str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
) -> VariableTracker:
    """``template.format(...)`` where not all arguments are constants."""
    if any(isinstance(each, TensorVariable) for each in arguments) and not keywords:
        return TextVariable(template, list(arguments))
    plain = [_known(tracer, each) for each in arguments]
    named = {name: _known(tracer, each) for name, each in keywords.items()}
    return ConstantVariable(tracer.evaluate(template.format, plain, named))


def _known(tracer: Tracer, value: VariableTracker) -> object:
    if isinstance(value, SymbolicVariable):
        return value.specialise()
    return value.constant() if value.is_constant() else to_text(tracer, value, "").constant()
