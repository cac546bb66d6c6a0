"""Members of a function object that the traced code replaces.

    f.__defaults__ = (2,)       the next call of f uses 2
    f.__defaults__ = [2]        TypeError, with Python's message
    f.__code__ = g.__code__     a graph break: the trace of f belongs to its old code

In torch: nothing. Read next: nbcompile/tracing/variables/functions.py
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise

TYPES: Mapping[str, tuple[type, ...]] = {
    "__defaults__": (tuple, types.NoneType), "__kwdefaults__": (dict, types.NoneType),
    "__annotations__": (dict, types.NoneType), "__name__": (str,), "__qualname__": (str,),
    "__code__": (types.CodeType,), "__globals__": (), "__closure__": (), "__builtins__": (),
}  # fmt: skip
"""Classes of the values that each member of a function accepts; none for a read-only one."""


def check_member(tracer: Tracer, name: str, value: VariableTracker) -> None:
    """Check that a member of a function accepts a value.

    Raises Python's TypeError or AttributeError if it does not, and breaks the graph at new code.
    """
    if name not in TYPES:
        return
    if not issubclass(realise(tracer, value).python_type(), TYPES[name]):
        function = types.FunctionType(check_member.__code__, {})
        tracer.evaluate(setattr, (function, name, object()))  # the text of the error does not depend on the value
    if name == "__code__":
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, "function.__code__ = ...", name="function's code")


def replaced_defaults(tracer: Tracer, function: VariableTracker) -> Sequence[VariableTracker] | None:
    """``f.__defaults__`` as the traced code set it; None if it did not."""
    value = tracer.side_effects.attribute(function, "__defaults__")
    if value is None:
        return None
    defaults = realise(tracer, value)
    return [] if defaults.python_type() is types.NoneType else defaults.unpack(tracer)


def replaced_keyword_defaults(tracer: Tracer, function: VariableTracker) -> Mapping[str, VariableTracker] | None:
    """``f.__kwdefaults__`` as the traced code set it; None if it did not."""
    value = tracer.side_effects.attribute(function, "__kwdefaults__")
    if value is None:
        return None
    named = realise(tracer, value)
    return {} if named.python_type() is types.NoneType else named_values(tracer, named)


def named_values(tracer: Tracer, named: VariableTracker) -> Mapping[str, VariableTracker]:
    """Items of a dict whose keys are names."""
    return {str(realise(tracer, key).constant()): named.get_item(tracer, key) for key in named.unpack(tracer)}
