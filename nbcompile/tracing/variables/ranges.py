"""A range: a loop over it is unrolled, number by number.

In torch: RangeVariable of torch/_dynamo/variables/lists.py. Read next: sequences.py
"""

from __future__ import annotations

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.iterators import SequenceIteratorVariable, moved
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.slices import index_of
from nbcompile.tracing.variables.symbolic import SymbolicVariable


class RangeVariable(VariableTracker):
    """A range; symbolic bounds are specialised, because loops over it are unrolled."""

    def __init__(self, value: range, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return range

    def is_constant(self) -> bool:
        return True

    def constant(self) -> object:
        return self.value

    def proxy(self) -> object:
        # `torch.tensor`, `new_tensor` and indexing take a range as they take a list; FX nodes hold ranges.
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return ConstantVariable(getattr(self.value, name))
        self.check_attribute(tracer, name)
        if name != "__class__" and callable(getattr(range, name)):
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__len__":
            return self.length(tracer)
        if name == "__iter__":
            return self.iterate(tracer)
        given = [realise(tracer, each) for each in arguments]
        if name == "__contains__":
            return ConstantVariable(self.contains(tracer, *given))
        if not all(map(_is_known, given)):
            self.no_method(name)
        values = [_known(each) for each in given]
        return ConstantVariable(tracer.evaluate(getattr(range, name), [self.value, *values], dict.fromkeys(keywords)))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        index = index_of(tracer, key, self.value.__getitem__)
        item = tracer.evaluate(lambda: self.value[index], ())
        return RangeVariable(item) if isinstance(item, range) else ConstantVariable(item)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if _is_known(item):
            return _known(item) in self.value
        # As CPython for a value that is no int: number by number.
        return any(tracer.equal(number, item) for number in self.unpack(tracer))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return RangeIteratorVariable(self.value)

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return [ConstantVariable(each) for each in self.value]

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(tracer.evaluate(len, (self.value,)))  # its length may exceed the limit of ``len``

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.value)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, "range")


class RangeIteratorVariable(SequenceIteratorVariable):
    """An iterator over a range, whose numbers are computed on demand: a loop may use only a few of them."""

    def __init__(self, value: range, source: Source | None = None) -> None:
        super().__init__(TupleVariable(()), source)
        self.value = value

    def python_type(self) -> type:
        return type(iter(self.value))

    def describe(self) -> str:
        return f"RangeIteratorVariable({self.value}, index={self.index})"

    def left(self) -> range:
        """The remaining numbers."""
        return self.value[:0] if self.is_exhausted else self.value[self.index :]

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        left = self.left()
        # For an iterator from outside, the advance is a side effect.
        if self.source is not None and not self.is_exhausted:
            tracer.side_effects.mark_mutated(tracer, self)
        if not left:
            self.is_exhausted = True
            return None
        self.index += 1
        return ConstantVariable(left[0])

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        return [ConstantVariable(each) for each in self.left()]

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        constructor = Call(Constant(iter, "iter"), (Constant(self.value, "range"),))
        return reconstruction.shared(self, lambda: moved(constructor, self.taken()))


def _is_known(value: VariableTracker) -> bool:
    return isinstance(value, SymbolicVariable) or value.is_constant()


def _known(value: VariableTracker) -> object:
    return value.specialise() if isinstance(value, SymbolicVariable) else value.constant()
