"""Signatures of functions in C, whose modules stay as they are.

    inspect.signature(list.index)     evaluates the default ``sys.maxsize`` in the namespace of ``builtins``, to
                                      which Python 3.13 then adds ``__builtins__``: the namespace contains itself
    signature_of(list.index)          the same signature, and a namespace without it

A namespace that contains itself is visible to the program, and torch.compile's search through it fails with a
RecursionError.

In torch: nothing. Read next: nbcompile/tracing/variables/containers.py
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return ``inspect.signature(function)``, and leave the module of the function as it is."""
    cls = getattr(function, "__objclass__", None)
    owner = getattr(function, "__module__", None) or getattr(cls, "__module__", None)
    module = sys.modules.get(owner) if isinstance(owner, str) else None
    namespace = getattr(module, "__dict__", {})
    had_builtins = "__builtins__" in namespace
    try:
        return inspect.signature(function)
    finally:
        if not had_builtins:
            namespace.pop("__builtins__", None)
