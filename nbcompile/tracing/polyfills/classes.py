"""Instance checks and class patterns, written in Python: the attributes that CPython reads of an object.

    isinstance(unittest.mock.Mock(spec=Linear), Linear)    True: its ``__class__`` is Linear

In torch: nothing; ``object_isinstance`` in Objects/abstract.c and ``_abc__abc_instancecheck_impl`` in Modules/_abc.c of
CPython. Read next: nbcompile/tracing/calls/instance_checks.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations


def instance_of(value: object, cls: type, base: type) -> bool:
    """``type.__instancecheck__`` of an object of class ``cls``, whose own error hides no AttributeError."""
    if issubclass(cls, base):
        return True
    try:
        claimed = value.__class__
    except AttributeError:
        return False
    return claimed is not cls and isinstance(claimed, type) and base in claimed.__mro__


def instance_of_abstract(value: object, cls: type, base: type) -> bool:
    """``ABCMeta.__instancecheck__`` of an object of class ``cls``."""
    claimed = value.__class__
    return issubclass(claimed, base) or (claimed is not cls and issubclass(cls, base))


def match_class(
    subject: object, cls: type, count: int, names: tuple[str, ...], matches_self: bool
) -> tuple[object, ...] | None:
    """``case cls(...)``: the values that its positional and keyword patterns are compared with; None if it fails."""
    if not isinstance(subject, cls):
        return None
    positional = ()
    if count:
        positional = cls.__match_args__ if hasattr(cls, "__match_args__") else ()
        if type(positional) is not tuple:
            raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(positional).__name__})")
        matches_self = matches_self and not hasattr(cls, "__match_args__")
        allowed = 1 if matches_self else len(positional)
        if allowed < count:
            plural = "" if allowed == 1 else "s"
            raise TypeError(f"{cls.__name__}() accepts {allowed} positional sub-pattern{plural} ({count} given)")
    values = [subject] if count and matches_self else []
    read = []
    for name in (*positional[:count], *names):
        if not isinstance(name, str):
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in read:
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
        read.append(name)
        try:
            values.append(getattr(subject, name))
        except AttributeError:
            return None
    return tuple(values)
