"""Strings that the traced program builds: f-strings, ``format``, ``str.format``.

    f"n={n}"       with n known: a constant; with a tensor or a number of the graph: created after the graph has run

In torch: torch/_dynamo/variables/misc.py (StringFormatVariable). Read next:
nbcompile/tracing/frame/handlers/operators.py
"""

from __future__ import annotations

import contextlib
import itertools
import re
import string
from collections.abc import Mapping, Sequence
from typing import NoReturn

from nbcompile.tracing import breaks
from nbcompile.tracing.calls.conversions import to_text
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import strings
from nbcompile.tracing.variables.base import VariableTracker, is_deferred, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deferred import DeferredVariable
from nbcompile.tracing.variables.known_values import has_program_methods
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.strings import NumberTextVariable, TextVariable, join
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def format_value(tracer: Tracer, value: VariableTracker, specification: VariableTracker) -> VariableTracker:
    """``format(value, specification)``."""
    value = realise_unless_deferred(tracer, value) if specification.is_constant() else realise(tracer, value)
    if isinstance(value, DeferredVariable):
        return _later_text(tracer, value, specification)
    if isinstance(value, SymbolicVariable) and not value.is_unbacked():
        value = _backed_number(value, specification)
    if isinstance(value, NumberTextVariable):
        return value
    if isinstance(value, TextVariable) and _is_empty(specification):
        return value
    if value.is_constant() and specification.is_constant():
        return ConstantVariable(tracer.evaluate(format, (value.constant(), specification.constant())))
    if isinstance(value, ObjectVariable) and value.has_special(tracer, "__format__"):
        return _format_object(tracer, value, specification)
    # The value is known only after the graph, so the text is created there.
    if specification.is_constant() and isinstance(value, (TensorVariable, SymbolicVariable)):
        return TextVariable(f"{{:{specification.constant()}}}", [value])
    if _is_empty(specification):
        return to_text(tracer, value, "")
    _raise_format_error(tracer, value, specification)


def _raise_format_error(tracer: Tracer, value: VariableTracker, specification: VariableTracker) -> NoReturn:
    # ``object.__format__`` takes no specification but "".
    if class_lookup(value.python_type(), "__format__") is vars(object)["__format__"] and specification.is_constant():
        message = f"unsupported format string passed to {value.error_name()}.__format__"
        tracer.raise_exception(TypeError, message)
    raise breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"format({value.describe()})", name="format", types=value.type_name()
    )


def _format_object(tracer: Tracer, value: ObjectVariable, specification: VariableTracker) -> VariableTracker:
    # Without a specification, numbers and texts, too, are formatted by the __str__ of a subclass.
    is_text = value.is_built_in("__format__") and _is_empty(specification)
    return to_text(tracer, value, "") if is_text else tracer.call_special(value, "__format__", [specification])


def _backed_number(number: SymbolicVariable, specification: VariableTracker) -> VariableTracker:
    """Return the text of a number, or its value as a constant where the format may be wrong for it."""
    if specification.is_constant() and not set("{}") & set(str(specification.constant())):
        # Numbers of one type have the same formats, but for ``c``.
        with contextlib.suppress(ValueError, TypeError):
            format(number.python_type()(), specification.constant())  # type: ignore[arg-type]
            if not str(specification.constant()).endswith("c"):
                return strings.of_number(number, f"{{:{specification.constant()}}}")
    return ConstantVariable(number.specialise())


def _later_text(tracer: Tracer, value: DeferredVariable, specification: VariableTracker) -> VariableTracker:
    """A text that is written after the graph, with a specification of its own."""
    if _is_empty(specification):
        return strings.as_text(value)
    if not set("{}c") & set(str(specification.constant())):  # not every number is a character
        with contextlib.suppress(ValueError, TypeError):
            return NumberTextVariable(f"{{:{specification.constant()}}}", [value])
    return format_value(tracer, value.realise(tracer), specification)


def _is_empty(specification: VariableTracker) -> bool:
    return specification.is_constant() and specification.constant() == ""


def convert(tracer: Tracer, value: VariableTracker, conversion: str) -> VariableTracker:
    """``!s``, ``!r``, ``!a`` or nothing."""
    if not conversion:
        return value
    value = realise_unless_deferred(tracer, value)
    if is_deferred(value):
        return strings.NumberTextVariable(f"{{!{conversion}}}", [value])
    if isinstance(value, SymbolicVariable):
        return strings.of_number(value, f"{{!{conversion}}}")
    if value.is_constant() and not has_program_methods(value):
        function = {"s": str, "r": repr, "a": ascii}[conversion]
        return ConstantVariable(tracer.evaluate(function, (value.constant(),)))
    return to_text(tracer, value, "r" if conversion in "ra" else "")


def format_string(
    tracer: Tracer, template: str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
) -> VariableTracker:
    """``template.format(...)`` where not all arguments are constants."""
    positions = itertools.count()
    pieces: list[VariableTracker] = []
    for literal, field, specification, conversion in _parsed(tracer, template):
        pieces.append(ConstantVariable(literal))
        if field is not None:
            first, path = _split(field)
            name = first or str(next(positions))
            value = _argument(tracer, int(name) if name.isdecimal() else name, arguments, keywords)
            for attribute, item in path:
                key = ConstantVariable(int(item) if item.isdecimal() else item)
                value = realise(
                    tracer, value.get_attribute(tracer, attribute) if attribute else value.get_item(tracer, key)
                )
            # Fields without a number inside of a specification continue the count.
            inner = re.sub(r"{}", lambda _: f"{{{next(positions)}}}", specification or "")
            specified = format_string(tracer, inner, arguments, keywords) if inner else ConstantVariable("")
            pieces.append(format_value(tracer, convert(tracer, value, conversion or ""), specified))
    return join(pieces)


def _parsed(tracer: Tracer, template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    return tracer.evaluate(lambda: list(string.Formatter().parse(template)), ())  # type: ignore[return-value]


def _split(field: str) -> tuple[str, list[tuple[str, str]]]:
    """``0.shape[1]`` as its argument and the attributes and items after it."""
    first = re.match(r"[^.\[]*", field)
    assert first is not None
    return first[0], re.findall(r"\.([^.\[]+)|\[([^\]]+)\]", field[first.end() :])


def _argument(
    tracer: Tracer, name: int | str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
) -> VariableTracker:
    if isinstance(name, int):
        if name >= len(arguments):
            tracer.raise_exception(IndexError, f"Replacement index {name} out of range for positional args tuple")
        return arguments[name]
    if name not in keywords:
        tracer.raise_exception(KeyError, name)
    return keywords[name]
