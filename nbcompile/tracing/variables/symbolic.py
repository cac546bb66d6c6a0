"""A number that is a node of the graph: a dynamic size, or an element of a tensor.

    x.shape[0] + 1      SymbolicVariable, a node operator.add, and a symbolic value s0 + 1

In torch: torch/_dynamo/variables/tensor.py (SymNodeVariable). Read next: nbcompile/tracing/variables/tensor.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable

import torch
import torch.fx

from nbcompile.capture.recipe import Attribute, Call, FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, UntracedMethodVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable


def _by_method(*functions: Callable[..., object]) -> dict[str, Callable[..., object]]:
    return {f"__{function.__name__.strip('_')}__": function for function in functions}


UNARY = {
    **_by_method(operator.neg, operator.pos, abs, operator.index, int, float, bool), "conjugate": operator.pos,
    "bit_count": int.bit_count, "bit_length": int.bit_length,
}  # fmt: skip
"""Functions that compute what a number's method without arguments returns."""
BINARY = _by_method(
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, divmod,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip
"""Functions that compute what a number's method with one argument returns."""


OF_INTS = ("as_integer_ratio", "is_integer")
"""Methods whose result for an int is known without its value, but for the number itself."""


class SymbolicVariable(VariableTracker):
    """A number that stays symbolic: a size of a dynamic tensor, or computed from one."""

    def __init__(self, node: torch.fx.Node, source: Source | None = None) -> None:
        self.node = node
        self.source = source

    @property
    def example(self) -> torch.SymInt | torch.SymFloat | torch.SymBool:
        """The symbolic number."""
        return self.node.meta["example_value"]

    def python_type(self) -> type:
        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(self.example)]

    def describe(self) -> str:
        return "SymNodeVariable()"

    def proxy(self) -> object:
        return self.node

    def hash_key(self, tracer: Tracer) -> Hashable:
        # A dict compares its keys, and two symbolic sizes may be equal in one call and different in the next.
        return self.specialise()

    def is_unbacked(self) -> bool:
        """True if the number is unbacked: read from a tensor, or drawn at random."""
        return not self.example.node.has_hint()

    def specialise(self) -> int | float | bool:
        """The concrete number, guarded from now on."""
        convert: Callable[[object], int | float | bool] = self.python_type()
        try:
            return convert(self.example)
        except RecursionError:
            raise
        except Exception as error:
            raise breaks.unsupported(
                breaks.DATA_DEPENDENT_EXPRESSION, str(error), expression=str(self.example)
            ) from error

    def truth(self, tracer: Tracer) -> bool:
        try:
            # ShapeEnv decides by the size of this call, and reports the condition, which becomes a guard.
            return bool(self.example)
        except RecursionError:
            raise
        except Exception as error:
            raise breaks.unsupported(
                breaks.SYMBOLIC_JUMP, f"attempted to jump with {self.describe()}", expression=str(self.example)
            ) from error

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(self.python_type(), None)
        if self.python_type() is int and name in ("real", "imag", "numerator", "denominator"):
            known = {"imag": ConstantVariable(0), "denominator": ConstantVariable(1)}
            return known.get(name, self)
        self.check_attribute(tracer, name)
        if (name in UNARY or name in BINARY or name in OF_INTS) and hasattr(self.python_type(), name):
            return NumberMethodVariable(self, name)
        return ConstantVariable(self.specialise()).get_attribute(tracer, name)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        if not isinstance(self.example, torch.SymFloat):
            return reconstruction.graph_output(self.node)
        # AOTAutograd converts floats that a graph returns to constants, but not tensors.
        tensor = next((each for each in self.node.users if each.target is torch.scalar_tensor), None)
        if tensor is None:
            given = (self.node,), {"dtype": torch.float64}
            tensor = reconstruction.tracer.output.apply("call_function", torch.scalar_tensor, *given)
        return reconstruction.shared(self, lambda: Call(Attribute(reconstruction.graph_output(tensor), "item"), ()))


class NumberMethodVariable(UntracedMethodVariable):
    """A method of a number of the graph: ``x.shape[0].__add__``."""

    owner: SymbolicVariable

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = [realise(tracer, argument) for argument in arguments]
        kind = self.owner.python_type()
        if self.name in OF_INTS and kind is int and not given and not keywords:
            one = ConstantVariable(1)
            return ConstantVariable(True) if self.name == "is_integer" else tracer.tuple_of([self.owner, one])
        function = (BINARY if given else UNARY).get(self.name)
        # Other operands are computed by the number's own class: ``(2).__add__(0.5)`` is NotImplemented, and
        # ``(2).__pow__(2, 5)`` is 4.
        has_rule = function is not None and kind is not bool and not keywords and len(given) <= 1
        if not has_rule or any(operand.python_type() is not kind for operand in given):
            known = ConstantVariable(self.owner.specialise())
            return tracer.call(known.get_attribute(tracer, self.name), given, keywords)
        return tracer.call(tracer.wrap(function, None), [self.owner, *given])
