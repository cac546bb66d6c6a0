"""A deferred value: Python computes it after the graph, from numbers of the graph, as ``math.gcd(n, 6)``.

    r = math.gcd(n, 6)     no node, no guard: the residual program calls math.gcd
    return x + n, r
    return x + r           a graph needs the number now: a graph break, after which it is an int like any other

The function is pure, its result is of the same type for all values, and it does not raise: the code that creates a
deferred value adds the guards for this.

In torch: nothing; such a call breaks the graph, or specialises the numbers. Read next: strings.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker, is_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable


class DeferredVariable(LazyVariable):
    """``function(*operands)``; what needs its value breaks the graph, or specialises the numbers."""

    is_deferred = True

    def __init__(self, function: Callable[..., object], operands: Sequence[VariableTracker]) -> None:
        self.function = function
        self.operands = list(operands)
        # The value of this call: only its type is read, which is the same for all calls.
        super().__init__(function(*map(_of_this_call, operands)), None)

    def describe(self) -> str:
        name = getattr(self.function, "__name__", str(self.function))
        types = ", ".join(operand.type_name() for operand in self.operands)
        return self.realised.describe() if self.realised else f"{name}({types})"

    def realise(self, tracer: Tracer) -> VariableTracker:
        """The value of this call, whose numbers are guarded from now on."""
        if self.realised is None:
            if self._breaks(tracer):
                name = getattr(self.function, "__name__", str(self.function))
                types = ", ".join(operand.type_name() for operand in self.operands)
                raise breaks.unsupported(breaks.BUILTIN_OPERATOR, self.describe(), name=name, types=types)
            self.realised = ConstantVariable(self.specialise())
        return self.realised

    def _breaks(self, tracer: Tracer) -> bool:
        # A break avoids one graph for each number. It would not help with a text, whose value the resume function
        # guards, too, nor with conditions, which have two values.
        if isinstance(self.value, str) or all(number.python_type() is bool for number in self.numbers()):
            return False
        output = tracer.output
        return output.body is output.root and not output.options.fullgraph and not output.errors_on_break

    def numbers(self) -> Iterator[SymbolicVariable]:
        """The numbers of the graph on which the value depends."""
        for operand in self.operands:
            if isinstance(operand, DeferredVariable):
                yield from operand.numbers()
            elif isinstance(operand, SymbolicVariable):
                yield operand

    def specialise(self) -> object:
        """The value of this call, whose numbers are guarded from now on."""
        return self.function(*map(_specialised, self.operands))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.realised:
            return self.realised.recipe(reconstruction)
        return reconstruction.shared(self, lambda: self.call_recipe(reconstruction))

    def call_recipe(self, reconstruction: Reconstructor) -> Recipe:
        """The call that computes the value."""
        name = getattr(self.function, "__name__", "function")
        return Call(Constant(self.function, name), tuple(map(reconstruction.recipe, self.operands)))


def _of_this_call(operand: VariableTracker) -> object:
    if isinstance(operand, SymbolicVariable):
        return operand.python_type()(operand.example.node.hint)
    return operand.value if isinstance(operand, LazyVariable) else operand.constant()


def _specialised(operand: VariableTracker) -> object:
    if isinstance(operand, (DeferredVariable, SymbolicVariable)):
        return operand.specialise()
    return operand.constant()


def can_be_deferred(values: Sequence[VariableTracker]) -> bool:
    """Return whether a call with these operands can be deferred: each is a constant, deferred, or a backed number.

    If all are constants, the call is computed now.
    """
    known_after = [is_deferred(value) or _is_backed(value) for value in values]
    return any(known_after) and all(
        is_known_after or value.is_constant() for value, is_known_after in zip(values, known_after, strict=True)
    )


def _is_backed(value: VariableTracker) -> bool:
    return isinstance(value, SymbolicVariable) and not value.is_unbacked()
