"""Keys of dicts and members of sets whose class has a ``__hash__`` of its own.

A tracker's ``hash_key`` is its key in the Python dict that represents a traced one.
For such an object it is a substitute, whose ``__hash__`` and ``__eq__`` trace the
methods of the object:

    d[Point(1, 2)]      Point.__hash__ is traced; on a hit Point.__eq__, too

In torch: HashableTracker of torch/_dynamo/variables/hashable.py. Read next:
nbcompile/tracing/variables/mappings.py
"""

from __future__ import annotations

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable


class TracedKey:
    """An object as a key, which is compared by its traced ``__eq__``."""

    def __init__(self, tracer: Tracer, tracker: VariableTracker) -> None:
        self.tracer = tracer
        self.tracker = tracker
        self.number: int | None = None
        self.is_exact = True
        """True if the hash is the program's own; False if it depends on an address that exists after the graph."""

    def __hash__(self) -> int:
        # Once: Python's dict stores the hash with the key, too.
        if self.number is None:
            found = realise(self.tracer, self.tracer.call_special(self.tracker, "__hash__", []))
            if isinstance(found, SymbolicVariable):
                self.number = hash(found.specialise())
            else:
                self.is_exact = found.is_constant()
                self.number = hash(found.constant() if self.is_exact else found.hash_key(self.tracer))
        return self.number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TracedKey):
            return self.tracker is other.tracker or self.tracer.equal(self.tracker, other.tracker)
        if isinstance(other, tuple):  # the key of another kind of tracker
            return False
        return self.tracer.equal(self.tracker, ConstantVariable(other))
