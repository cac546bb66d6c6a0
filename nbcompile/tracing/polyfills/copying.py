"""Polyfills of ``copy.copy`` and ``copy.deepcopy``.

    copy.deepcopy(config)      config.__reduce_ex__(4)  ->  (make a new one, of this class), its __dict__

In torch: torch/_dynamo/polyfills/copy.py. Read next: nbcompile/tracing/calls/library.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import copyreg
from typing import Any


def reduce_ex(self: Any, protocol: int) -> Any:
    """``object.__reduce_ex__``."""
    cls: Any = type(self)
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    if hasattr(cls, "__getnewargs_ex__"):
        arguments, keywords = self.__getnewargs_ex__()
        new: Any = (copyreg.__newobj_ex__, (cls, arguments, keywords))  # type: ignore[attr-defined]
    elif hasattr(cls, "__getnewargs__"):
        new = (copyreg.__newobj__, (cls, *self.__getnewargs__()))  # type: ignore[attr-defined]
    else:
        new = (copyreg.__newobj__, (cls,))  # type: ignore[attr-defined]
    items = iter(self) if isinstance(self, list) else None
    entries = iter(self.items()) if isinstance(self, dict) else None
    return (*new, self.__getstate__(), items, entries)


def getstate(self: Any) -> Any:
    """``object.__getstate__``: the attributes, and the slots where there are some."""
    members = getattr(self, "__dict__", None) or None
    slots = {}
    for cls in type(self).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(self, name):
                slots[name] = getattr(self, name)
    return (members, slots) if slots else members
