"""An exception object of the traced program.

In torch: torch/_dynamo/variables/misc.py (ExceptionVariable). Read next:
nbcompile/tracing/handlers/control.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from nbcompile.tracing.reconstruction import Reconstruction


class ExceptionVariable(VariableTracker):
    """An exception, by its class and arguments."""

    def __init__(self, cls: type[BaseException], arguments: Sequence[VariableTracker]) -> None:
        self.cls = cls
        self.arguments = list(arguments)
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"ExceptionVariable({self.cls})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "args":
            return TupleVariable(self.arguments)
        if name == "__cause__":
            return self.cause or ConstantVariable(None)
        if name == "__context__":
            return self.context or ConstantVariable(None)
        if name == "__traceback__":
            return ConstantVariable(None)
        if name == "__class__":
            return tracer.wrap(self.cls, None)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.arguments[0] if self.arguments else ConstantVariable(None)
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        return super().get_attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if name == "__cause__":
            self.cause = value
        elif name in ("__traceback__", "__suppress_context__", "__context__"):
            return
        else:
            tracer.side_effects.store_attribute(tracer, self, name, value)

    def text(self, tracer: Tracer) -> str | None:
        """``str(exception)``, where its arguments are known."""
        if not all(each.is_constant() for each in self.arguments):
            return None
        return str(self.cls(*(each.constant() for each in self.arguments)))

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        return reconstruction.shared(
            self,
            lambda: Call(Constant(self.cls, self.cls.__name__), tuple(map(reconstruction.recipe, self.arguments))),
        )
