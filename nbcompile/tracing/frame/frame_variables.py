"""Variables of a frame, as its own code reads them: ``locals()``, and ``super()`` without arguments.

    def method(self, x): return locals()       {'self': self, 'x': x}
    def method(self, x): return super()        the class in the cell __class__, and self

In torch: torch/_dynamo/variables/builtin.py (call_locals) and variables/misc.py (SuperVariable).
Read next: translator.py
"""

from __future__ import annotations

import sys

from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mappings import DictVariable


def local_variables(frame: Translator) -> VariableTracker:
    """Return ``locals()`` of a frame."""
    found = {**frame.locals, **{name: cell.content for name, cell in frame.cells.items()}}
    # Up to 3.12 all calls of ``locals()`` in a function return the same dict, which each call updates. From 3.13 on
    # (PEP 667) each call returns a new one.
    if frame.snapshot is None or sys.version_info >= (3, 13):  # earlier versions have one dict per frame
        frame.snapshot = DictVariable(frame.interpreter, [])
    for name in (*frame.code.co_varnames, *frame.code.co_cellvars, *frame.code.co_freevars):
        value = found.get(name)
        if value is not None:
            frame.snapshot.set_item(frame.interpreter, ConstantVariable(name), value)
        else:
            frame.snapshot.call_method(frame.interpreter, "pop", [ConstantVariable(name), ConstantVariable(None)], {})
    return frame.snapshot


def class_and_self(frame: Translator) -> tuple[VariableTracker, VariableTracker]:
    """Class and object that ``super()`` without arguments uses in a frame."""
    # Python's compiler gives a method that mentions ``super`` the free variable ``__class__``. The object is the
    # first parameter, which is in a cell instead of a local if an inner function uses it.
    if not frame.code.co_argcount:
        frame.interpreter.raise_exception(RuntimeError, "super(): no arguments")
    first = frame.code.co_varnames[0]
    owner = frame.cells[first].content if first in frame.cells else frame.locals.get(first)
    if owner is None:
        frame.interpreter.raise_exception(RuntimeError, "super(): arg[0] deleted")
    cell = frame.cells.get("__class__")
    if cell is None or cell.content is None:
        which = "__class__ cell not found" if cell is None else "empty __class__ cell"
        frame.interpreter.raise_exception(RuntimeError, f"super(): {which}")
    return realise(frame.interpreter, cell.content), realise(frame.interpreter, owner)
