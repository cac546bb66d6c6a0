"""A value of a class in C that never changes: a decimal number, a date.

    PRICE == 2, DAY in holidays, if AMOUNT:     evaluated while tracing; the value is guarded at the first use
    DAY.year, WAIT.days                         read while tracing; only the attribute is guarded

Operations with equal results for equal values are evaluated: comparison, truth, hash.
Methods and arithmetic (for decimals it depends on the thread's context) run in Python.

In torch: UserDefinedObjectVariable (torch/_dynamo/variables/user_defined.py).
Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
from collections.abc import Hashable

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import UnknownVariable, VariableTracker

_TIMED = (dt.time, dt.datetime)
_KINDS = (decimal.Decimal, dt.date, dt.timedelta, dt.timezone, *_TIMED)


def is_plain_value(value: object) -> bool:
    """True if equal values behave alike, without code of the program (a time zone may be of its class)."""
    if type(value) not in _KINDS:
        return False
    if isinstance(value, decimal.Decimal):
        return not value.is_nan()
    return not isinstance(value, _TIMED) or type(value.tzinfo) in (type(None), dt.timezone)


class PlainValueVariable(UnknownVariable):
    """A value that is guarded as a whole at its first use."""

    def guarded_value(self, tracer: Tracer) -> object:
        """The value, which is guarded from now on."""
        if self.source is not None:
            tracer.guard(self.source, GuardKind.EQUALS_MATCH, self.value)
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        # Equal times may differ: 12:00 in one time zone is 11:00 in another one.
        if not inspect.isdatadescriptor(inspect.getattr_static(type(self.value), name, None)) or name == "__class__":
            return super().get_attribute(tracer, name)
        source = None if self.source is None else AttrSource(self.source, name)
        return tracer.wrap(getattr(self.value, name), source)

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.guarded_value(tracer))

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.guarded_value(tracer)


def compared(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> tuple[object, object] | None:
    """The two operands of a comparison with such a value, if both are known."""
    pair = (left, right)
    if not any(isinstance(each, PlainValueVariable) for each in pair):
        return None
    if not all(isinstance(each, PlainValueVariable) or _is_known(each) for each in pair):
        return None
    return tuple(  # type: ignore[return-value]
        value.guarded_value(tracer) if isinstance(value, PlainValueVariable) else value.constant() for value in pair
    )


def _is_known(other: VariableTracker) -> bool:
    # The thread's context records or forbids a comparison of a float and a decimal number.
    return other.is_constant() and not isinstance(other.constant(), (float, complex))
