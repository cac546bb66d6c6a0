"""Operands of built-in classes: a method accepts an operand, or returns NotImplemented.

    1 + "a"        int.__add__ returns NotImplemented: str's method is called next
    {1} | Frozen   set.__or__ accepts every set

In torch: nothing; its trackers list the operands that they accept. Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import torch

from nbcompile import torch_internals
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.objects import built_in_part
from nbcompile.tracing.variables.tensor import TensorVariable

_SEQUENCES = (str, bytes, tuple, list)
_OF_SEQUENCES = ("__add__", "__mul__", "__rmul__", "__iadd__", "__imul__")
"""Methods of sequences, which are called last: if neither operand implements the operator as a number."""


def accepts(owner: VariableTracker, name: str, other: VariableTracker) -> bool:
    """True if a built-in class implements the operator for the operand: the operand's class is then not consulted."""
    kind, operand = _kind(owner), _kind(other)
    return kind is not object and is_accepted(kind, name, operand)


def _kind(value: VariableTracker) -> type:
    """The built-in class of a value, or its built-in base class; ``object`` for any other operand."""
    value = built_in_part(value)
    if isinstance(value, TensorVariable):
        return torch.Tensor
    return next(base for base in value.python_type().__mro__ if base in _SAMPLES)


_SAMPLES: dict[type, Callable[[], object]] = {
    int: lambda: 1, bool: lambda: True, float: lambda: 1.0, complex: lambda: 1j, str: str, bytes: bytes, tuple: tuple,
    list: list, dict: dict, set: set, frozenset: frozenset, types.NoneType: lambda: None, object: object,
    torch.Tensor: lambda: torch.ones(1),
}  # fmt: skip
"""Functions that create a value of each class, on which its methods are tried."""


@functools.cache
def is_accepted(kind: type, name: str, operand: type) -> bool:
    """True if a method of a built-in class accepts an operand of another one."""
    # Instead of a list of classes that accept each other, the method is called with a sample of each, and the result
    # is cached. An error counts as acceptance: only NotImplemented continues with the other operand.
    method = getattr(kind, name, None)
    if method is None or (kind in _SEQUENCES and name in _OF_SEQUENCES):
        return False
    with torch_internals.dispatch_modes()._disable_current_modes(), torch._C.DisableTorchFunction():
        try:
            return method(_SAMPLES[kind](), _SAMPLES[operand]()) is not NotImplemented
        except Exception:  # noqa: BLE001 - an error counts as acceptance
            return True
