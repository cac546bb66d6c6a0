"""``deque + deque``, ``deque * n`` and ``deque.copy()`` of a subclass of deque: Python calls the class with the deque.

    Window([1]) * 2            a Window, created by ``Window(window)`` and then repeated in place
    deque([1]) + Window([2])   a deque: the left operand's class decides

In torch: DequeVariable of torch/_dynamo/variables/lists.py. Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

from nbcompile.tracing.polyfills.operators import joined_deque, repeated_deque
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.objects import ObjectVariable, built_in_part


def operate(tracer: Tracer, method: str, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """``left + right`` or ``left * right`` where an object of a subclass of deque is copied; None otherwise."""
    if method == "__add__" and _is_copied(left) and isinstance(built_in_part(right), DequeVariable):
        return tracer.call_python(joined_deque, left, _limit(left), right)
    if method == "__mul__":
        for owner, count in ((left, right), (right, left)):
            if _is_copied(owner) and hasattr(count.python_type(), "__index__"):
                return tracer.call_python(repeated_deque, owner, _limit(owner), count)
    return None


def _is_copied(value: VariableTracker) -> bool:
    return isinstance(value, ObjectVariable) and isinstance(value.base_items, DequeVariable)


def _limit(value: VariableTracker) -> VariableTracker:
    part = built_in_part(value)
    assert isinstance(part, DequeVariable)
    return ConstantVariable(part.maxlen)
