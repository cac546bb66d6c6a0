"""``"%s of %r" % values`` where not all values are known while tracing.

    "%r: %d" % (P(1), 2)      what P.__repr__ returns, ": 2"
    "%(a)s" % d               d an object: the value is d["a"], as its class defines it
    "loss %s" % x             x a tensor: a text that is created after the graph has run

In torch: torch/_dynamo/variables/builtin.py. Read next: text.py
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, is_deferred, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import built_in_part
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.special_results import stand_in
from nbcompile.tracing.variables.strings import NumberTextVariable, TextVariable, join, of_number
from nbcompile.tracing.variables.symbolic import SymbolicVariable

FIELD = re.compile(r"%([-#0 +]*[0-9]*(?:\.[0-9]+)?[a-zA-Z%])")
"""One conversion of a template: no name, and no ``*``."""
NAMED = re.compile(r"%\(([^()]*)\)")
"""Name of a key, before a conversion."""
FLOATS = "eEfFgG"
"""Conversions of a float."""


def filled(tracer: Tracer, template: object, right: VariableTracker) -> VariableTracker | None:
    """The text; None where Python has to compute it (a number from a tensor, a wrong number of values)."""
    if not isinstance(template, str):
        return None
    values: Sequence[VariableTracker]
    if names := NAMED.findall(template):
        if not isinstance(built_in_part(right), DictVariable):
            return None
        values = [right.get_item(tracer, ConstantVariable(name)) for name in names]
        template = NAMED.sub("%", template)
    else:
        values = right.unpack_keeping_deferred(tracer) if isinstance(right, TupleVariable) else [right]
    literals, fields = FIELD.split(template)[::2], FIELD.findall(template)
    # "%5%" is left to Python.
    if any(field.endswith("%") and field != "%" for field in fields):
        return None
    used = [field for field in fields if field != "%"]
    if len(used) != len(values) or any("%" in literal for literal in literals):
        return None
    return _joined(tracer, literals, fields, values)


def _joined(
    tracer: Tracer, literals: Sequence[str], fields: Sequence[str], values: Sequence[VariableTracker]
) -> VariableTracker | None:
    left = iter(values)
    pieces: list[VariableTracker] = [ConstantVariable(literals[0])]
    for field, literal in zip(fields, literals[1:], strict=True):
        text = (
            ConstantVariable("%")
            if field == "%"
            else _written(tracer, field, realise_unless_deferred(tracer, next(left)))
        )
        if text is None:
            return None
        pieces += [text, ConstantVariable(literal)]
    return join(pieces)


def _written(tracer: Tracer, field: str, value: VariableTracker) -> VariableTracker | None:
    """One value by its conversion."""
    if is_deferred(value):
        if replacement := _replacement_field(field, value.python_type()):
            return NumberTextVariable(replacement, [value])
        value = realise(tracer, value)
    if isinstance(value, SymbolicVariable) and not value.is_unbacked():
        replacement = _replacement_field(field, value.python_type())
        if replacement:
            return of_number(value, replacement)
        value = ConstantVariable(value.specialise())
    # A tuple of constants may be of a subclass, with a text of its own.
    if isinstance(value, ConstantVariable):
        return ConstantVariable(tracer.evaluate(operator.mod, (f"%{field}", (value.constant(),))))
    if field[-1] not in "sr":
        return _number(tracer, field, value)
    text = realise(tracer, tracer.call(tracer.wrap(str if field[-1] == "s" else repr, None), [value]))
    if text.is_constant():
        return ConstantVariable(tracer.evaluate(operator.mod, (f"%{field[:-1]}s", (text.constant(),))))
    return text if isinstance(text, TextVariable) and len(field) == 1 else None


def _replacement_field(field: str, kind: type) -> str:
    """Field of ``str.format`` that writes a number of that type as the conversion does: ``{:03d}``; "" for none."""
    if field in ("s", "r"):
        return f"{{!{field}}}"
    same = re.fullmatch(r"[0+ ]?[0-9]*d", field) if kind is int else None
    same = same or (re.fullmatch(rf"[0+ ]?[0-9]*(\.[0-9]+)?[{FLOATS}]", field) if kind in (int, float) else None)
    return f"{{:{field}}}" if same else ""


def _number(tracer: Tracer, field: str, value: VariableTracker) -> VariableTracker | None:
    """A number of a class that derives from a built-in one: C code reads the built-in value."""
    number = built_in_part(value)
    if not isinstance(number, ConstantVariable):
        return None
    if field[-1] in FLOATS and isinstance(number.value, int):
        return _written(tracer, field, realise(tracer, tracer.call(tracer.wrap(float, None), [value])))
    return ConstantVariable(tracer.evaluate(operator.mod, (f"%{field}", (stand_in(value),))))
