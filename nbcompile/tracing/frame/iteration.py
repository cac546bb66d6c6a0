"""Steps of iterators: the next item, the end, and the value that a generator returned.

    next(it)             until_stop: an item, or None where the program's ``__next__`` raised StopIteration
    y = yield from it    send: next or send; afterwards returned_by(it)

In torch: torch/_dynamo/variables/iter.py. Read next: inlining.py (generators)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from nbcompile.tracing.frame.inlining import GeneratorVariable
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.observed import ObservedException


def until_stop(
    tracer: Tracer, iterator: VariableTracker, step: Callable[[], VariableTracker]
) -> VariableTracker | None:
    """Return the result of an iterator's step; None if it raised StopIteration."""
    try:
        return realise_unless_deferred(tracer, step())
    except ObservedException as error:
        if issubclass(error.value.python_type(), StopIteration):
            iterator.ending = error.value.get_attribute(tracer, "value")
            return None
        raise


def stop(tracer: Tracer, iterator: VariableTracker) -> NoReturn:
    """Raise the StopIteration of an exhausted iterator."""
    value = returned_by(tracer, iterator)
    # ``return`` without a value raises ``StopIteration()``, whose ``args`` are empty, not ``StopIteration(None)``.
    nothing = value.is_constant() and value.constant() is None
    raise ObservedException(ExceptionVariable(StopIteration, [] if nothing else [value]))


def send(tracer: Tracer, iterator: VariableTracker, value: VariableTracker) -> VariableTracker | None:
    """``iterator.send(value)``; None at its end."""
    if isinstance(iterator, GeneratorVariable):
        return iterator.send(value)
    # ``yield from`` calls ``next`` to send None, since most iterators have no method ``send`` (PEP 380).
    if value.is_constant() and value.constant() is None:
        return iterator.next_item(tracer)
    return until_stop(tracer, iterator, lambda: iterator.call_method(tracer, "send", [value], {}))


def returned_by(tracer: Tracer, iterator: VariableTracker) -> VariableTracker:
    """Value that an exhausted generator returned."""
    # No value: the generator ended without ``return``, or the iterator is no generator.
    return ConstantVariable(None) if iterator.ending is None else realise(tracer, iterator.ending)
