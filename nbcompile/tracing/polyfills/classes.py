"""Instance checks, said in Python: what CPython asks an object for its ``__class__``.

    isinstance(unittest.mock.Mock(spec=Linear), Linear)    True: its ``__class__`` is Linear

In torch: nothing; ``object_isinstance`` in Objects/abstract.c and ``_abc__abc_instancecheck_impl`` in Modules/_abc.c of
CPython. Read next: nbcompile/tracing/calls/instance_checks.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations


def instance_of(value: object, cls: type, wanted: type) -> bool:
    """``type.__instancecheck__`` of an object of class ``cls``, whose own error hides no AttributeError."""
    if issubclass(cls, wanted):
        return True
    try:
        claimed = value.__class__
    except AttributeError:
        return False
    return claimed is not cls and isinstance(claimed, type) and wanted in claimed.__mro__


def instance_of_abstract(value: object, cls: type, wanted: type) -> bool:
    """``ABCMeta.__instancecheck__`` of an object of class ``cls``."""
    claimed = value.__class__
    return issubclass(claimed, wanted) or (claimed is not cls and issubclass(cls, wanted))
