"""A string with tensors or numbers of the graph in it: created after the graph has run.

    f"loss {x.sum()}"       the template "loss {}", and a node sum
    f"step {step}"          the template "step {}", and a number of the graph

It can be passed on, printed and returned. An operation that needs its characters breaks the graph, or specialises the
numbers, if the string contains only backed numbers: ``getattr(self, f"layer{n}")``.

In torch: torch/_dynamo/variables/misc.py (StringFormatVariable). Read next:
nbcompile/tracing/calls/text.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker, is_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deferred import DeferredVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


class TextVariable(VariableTracker):
    """``template.format(*values)``, some of whose values are known only at run time."""

    def __init__(self, template: str, values: Sequence[VariableTracker]) -> None:
        self.template = template
        self.values = list(values)
        self.versions = [_version(each) for each in values]

    def python_type(self) -> type:
        return str

    def describe(self) -> str:
        return f"StringFormatVariable({self.template!r})"

    def truth(self, tracer: Tracer) -> bool:
        raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, f"bool({self.describe()})", name="__bool__", type="str")

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.versions != [_version(each) for each in self.values]:  # the text needs the earlier value of the tensor
            context = f"{self.describe()} of a tensor that changed"
            raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, context, name="str")
        values = tuple(map(reconstruction.recipe, self.values))
        return Call(Constant(str.format, "format"), (Constant(self.template), *values))


class NumberTextVariable(DeferredVariable):
    """A string of constants and backed numbers: an operation that needs its characters specialises the numbers."""

    def __init__(self, template: str, values: Sequence[VariableTracker]) -> None:
        super().__init__(str.format, [ConstantVariable(template), *values])
        self.text = TextVariable(template, values)

    def describe(self) -> str:
        return self.realised.describe() if self.realised else self.text.describe()


def of_number(number: SymbolicVariable, field: str) -> VariableTracker:
    """A number as text, by a replacement field as of ``str.format``: ``{!r}``."""
    return TextVariable(field, [number]) if number.is_unbacked() else NumberTextVariable(field, [number])


def as_text(value: VariableTracker) -> VariableTracker:
    """A string that Python computes after the graph, as a text with one field; any other value itself."""
    if is_deferred(value) and not isinstance(value, NumberTextVariable):
        return NumberTextVariable("{}", [value])
    return value


def _version(value: VariableTracker) -> int:
    return value.example._version if isinstance(value, TensorVariable) else 0


def join(parts: Sequence[VariableTracker]) -> VariableTracker:
    """All parts as one string."""
    parts = list(map(as_text, parts))
    if any(isinstance(part, TextVariable) for part in parts):
        return joined(parts)
    if any(isinstance(part, NumberTextVariable) for part in parts):
        text = joined(parts)
        return NumberTextVariable(text.template, text.values)
    return ConstantVariable("".join(str(part.constant()) for part in parts))


def joined(parts: Sequence[VariableTracker]) -> TextVariable:
    """The parts as one text: their templates and values, one after another."""
    template, values = "", []
    for part in parts:
        text = part.text if isinstance(part, NumberTextVariable) else part
        if isinstance(text, TextVariable):
            template += text.template
            values += text.values
        else:
            template += str(text.constant()).replace("{", "{{").replace("}", "}}")
    return TextVariable(template, values)
