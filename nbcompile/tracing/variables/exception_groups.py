"""Groups of exceptions: errors of ``BaseExceptionGroup.__new__``, and the class that it chooses.

    ExceptionGroup("m", [])                  ValueError, with Python's own message
    BaseExceptionGroup("m", [KeyError()])    an ExceptionGroup

In torch: nothing; groups break the graph there. Read next: nbcompile/tracing/calls/construction.py
"""

from __future__ import annotations

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, VariableTracker
from nbcompile.tracing.variables.exceptions import builtin_base
from nbcompile.tracing.variables.objects import ObjectVariable


def class_of_group(tracer: Tracer, cls: type[BaseException], arguments: Arguments) -> type[BaseException]:
    """The class of a new exception, after the checks of ``BaseExceptionGroup.__new__``.

    A group of the base class whose exceptions are all of class ``Exception`` is an ``ExceptionGroup``.
    """
    if not issubclass(cls, BaseExceptionGroup):
        return cls
    # The checks depend on the name and the bases of the class: one without code of the program is called instead.
    builtin = builtin_base(cls)
    bases = (builtin, Exception) if issubclass(cls, Exception) and not issubclass(builtin, Exception) else (builtin,)
    is_own = cls in (BaseExceptionGroup, ExceptionGroup)  # Python's own
    group = tracer.evaluate(
        cls if is_own else type(cls.__name__, bases, {}), [_like(tracer, each) for each in arguments]
    )
    return type(group) if is_own else cls  # type: ignore[return-value]


def _like(tracer: Tracer, value: VariableTracker) -> object:
    """A real value that a group accepts or rejects as it does the traced one."""
    if value.is_constant():
        return value.constant()
    kind = value.python_type()
    if issubclass(kind, BaseException):
        return Exception() if issubclass(kind, Exception) else BaseException()
    if kind in (list, tuple):
        return [_like(tracer, each) for each in value.unpack(tracer)]
    if isinstance(value, ObjectVariable):  # its class may be a sequence
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CALL, f"ExceptionGroup of {value.describe()}", name="ExceptionGroup"
        )
    return object()
