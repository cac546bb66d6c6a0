"""A string with tensors in it: created after the graph has run.

    f"loss {x.sum()}"       the template "loss {}", and a node sum

It can be passed on, printed and returned; an operation that needs its characters
breaks the graph.

In torch: torch/_dynamo/variables/misc.py (StringFormatVariable). Read next:
nbcompile/tracing/calls/text.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
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


def _version(value: VariableTracker) -> int:
    return value.example._version if isinstance(value, TensorVariable) else 0


def join(parts: Sequence[VariableTracker]) -> VariableTracker:
    """All parts as one string."""
    if any(isinstance(part, TextVariable) for part in parts):
        return joined(parts)
    return ConstantVariable("".join(str(part.constant()) for part in parts))


def joined(parts: Sequence[VariableTracker]) -> TextVariable:
    """The pieces of an f-string as one."""
    template, values = "", []
    for part in parts:
        if isinstance(part, TextVariable):
            template += part.template
            values += part.values
        else:
            template += str(part.constant()).replace("{", "{{").replace("}", "}}")
    return TextVariable(template, values)
