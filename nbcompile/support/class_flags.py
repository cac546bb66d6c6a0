"""Flags of classes that Python does not name: which were created by a class statement, which are abstract.

    is_class_statement(torch.nn.Linear)    True
    is_class_statement(dict)               False: written in C, it never changes and lives as long as the process

In torch: nothing; Include/object.h of CPython (``Py_TPFLAGS_HEAPTYPE``, ``Py_TPFLAGS_IMMUTABLETYPE`` and
``Py_TPFLAGS_IS_ABSTRACT``). Read next: nbcompile/tracing/variables/class_facts.py
"""

from __future__ import annotations

HEAP_TYPE = 1 << 9
"""A class statement created the class, or C code did while the program runs; others have no dict that could change."""
_IMMUTABLE_TYPE = 1 << 8
ABSTRACT = 1 << 20
"""Some methods are abstract: ``object.__new__`` raises TypeError."""


def is_class_statement(cls: type) -> bool:
    """True for a class of Python's; one in C is not on the heap, or it is immutable, as most are since 3.12."""
    return bool(cls.__flags__ & HEAP_TYPE) and not cls.__flags__ & _IMMUTABLE_TYPE
