"""Errors of ``+`` and ``*`` on sequences that no operand implements, and of the items of a torch.Size.

    [1] + (2,)             TypeError: can only concatenate list (not "tuple") to list
    [1] * "a"              TypeError: can't multiply sequence by non-int of type 'str'
    torch.Size([(1,)])     TypeError: torch.Size() takes an iterable of 'int' (item 0 is 'tuple')

In torch: torch/_dynamo/variables/lists.py. Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import collections

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

_REPEATED = (str, bytes, list, tuple, collections.deque)


def check_sequences(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> None:
    """Raise the TypeErrors of ``+`` and ``*`` of sequences, which Python tries last."""
    kinds = left.python_type(), right.python_type()
    own = next((kind for kind in _REPEATED if issubclass(kinds[0], kind)), None)
    if symbol in ("+", "+=") and own is not None:
        name = own.__name__
        other = right.error_name()
        message = f'can only concatenate {name} (not "{other}") to {name}'
        if own is bytes:
            message = f"can't concat {other} to bytes"
        elif kinds[0] is torch.Size:
            message = f"can only concatenate tuple (not {other}) to torch.Size"
        tracer.raise_exception(TypeError, message)
    if symbol not in ("*", "*="):
        return
    if own is not None:
        tracer.raise_exception(TypeError, f"can't multiply sequence by non-int of type '{right.error_name()}'")
    # In place, the right operand's method is not called if the left one's class has any method of a sequence.
    has_length = symbol == "*" or not (isinstance(left, ObjectVariable) or hasattr(kinds[0], "__len__"))
    if has_length and issubclass(kinds[1], _REPEATED):
        tracer.raise_exception(TypeError, f"can't multiply sequence by non-int of type '{left.error_name()}'")


def check_size(tracer: Tracer, index: int, size: VariableTracker) -> None:
    """Check an item of a ``torch.Size`` as its constructor does; the message has the number of the item."""
    if size.is_constant():
        tracer.evaluate(torch.Size, ([*[0] * index, size.constant()],))
    elif size.lacks("__index__"):
        message = f"torch.Size() takes an iterable of 'int' (item {index} is '{size.error_name()}')"
        tracer.raise_exception(TypeError, message)
    elif not isinstance(size, (TensorVariable, SymbolicVariable)):
        raise breaks.unsupported(
            breaks.BUILTIN_OPERATOR, f"torch.Size([{size.describe()}])", name="torch.Size", types=size.type_name()
        )
