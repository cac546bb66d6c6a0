"""Identity of numbers: two are the same only if no program can tell them apart.

    same(0.0, -0.0)    False: 1 / x differs          same(1, True)        False, as are 1 and 1.0
    same(nan, nan)     True, although nan != nan      same(nan, -nan)      False: copysign differs

Python's ``==``, which dict keys use, is another relation. All code that looks for an equal constant (a body of the IR,
an argument of a node, a
value that code was compiled for) compares with ``same`` or by ``key``.

In torch: torch/_inductor/codegen/common.py (CSE) compares the text that it has printed. Read next:
nbcompile/ir/expr.py
"""

from __future__ import annotations

import struct
from collections.abc import Hashable


def key(value: object) -> Hashable:
    """Key that is equal only for the same number; any other hashable value is compared with its type."""
    match value:
        case float():
            return type(value), struct.pack("<d", value)
        case complex():
            return type(value), struct.pack("<dd", value.real, value.imag)
    return type(value), value


def same(left: object, right: object) -> bool:
    """True if no program can tell two numbers apart."""
    return key(left) == key(right)
