"""Set a context variable for a block, also if Ctrl-C comes at once.

    with bound(_recorders, (*_recorders.get(), self)):
        ...

``token = variable.set(value)`` before ``try`` leaves the value for ever if the signal is handled between the two:
CPython handles signals after each call.

In torch: nothing. Read next: nbcompile/torch_internals/interrupts.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Value = TypeVar("Value")


class Variable(Protocol[Value]):
    """A ContextVar that has a default."""

    def get(self) -> Value:
        """The value here."""

    def set(self, value: Value, /) -> object:
        """Another value."""


@contextmanager
def bound(variable: Variable[Value], value: Value) -> Iterator[None]:
    """Inside, the variable has the value."""
    before = variable.get()
    try:
        variable.set(value)
        yield
    finally:
        variable.set(before)
