"""Slices, and other subscripts of a sequence.

    xs[1:n]      a SliceVariable; a tensor keeps a symbolic n, a list specialises it
    xs[-1]       an index, as a number

In torch: SliceVariable of torch/_dynamo/variables/lists.py. Read next: sequences.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables import special_results
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def slice_of(tracer: Tracer, parts: Sequence[VariableTracker]) -> SliceVariable:
    """A slice of one to three parts; a tensor among them is converted to a number."""
    bounds = [realise(tracer, each) for each in parts]
    return SliceVariable(
        [each.call_method(tracer, "item", [], {}) if isinstance(each, TensorVariable) else each for each in bounds]
    )


class SliceVariable(VariableTracker):
    """A slice, by its three parts."""

    def __init__(self, parts: Sequence[VariableTracker], source: Source | None = None) -> None:
        none = ConstantVariable(None)
        self.start, self.stop, self.step = (none, parts[0], none) if len(parts) == 1 else (*parts, none)[:3]
        self.source = source

    def python_type(self) -> type:
        return slice

    def parts(self) -> tuple[VariableTracker, VariableTracker, VariableTracker]:
        """Start, stop, step."""
        return self.start, self.stop, self.step

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts())

    def constant(self) -> object:
        return slice(*(part.constant() for part in self.parts()))

    def proxy(self) -> object:
        return slice(*(part.proxy() for part in self.parts()))

    def value(self, tracer: Tracer) -> slice:
        """The slice itself, with symbolic parts specialised."""
        return slice(*(_bound(tracer, part) for part in self.parts()))

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            part: VariableTracker = getattr(self, name)
            return part
        if name == "indices":
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "indices":
            real = self.value(tracer)
            if len(arguments) != 1 or keywords:
                tracer.evaluate(real.indices, arguments, keywords)  # raises Python's error
            length = index_of(tracer, arguments[0], real.indices)
            return tracer.wrap(tracer.evaluate(real.indices, (length,)), None)
        return super().call_method(tracer, name, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return Call(Constant(slice, "slice"), tuple(reconstruction.recipe(part) for part in self.parts()))


def _bound(tracer: Tracer, part: VariableTracker) -> Any:
    if part.is_constant() and not hasattr(part.constant(), "__index__"):
        tracer.evaluate(slice(part.constant()).indices, (0,))  # raises for any constant but None
        return None
    return index_of(tracer, part)


def index_of(tracer: Tracer, key: VariableTracker, use: Callable[[Any], object] = [].__getitem__) -> Any:
    """A tracker used as an index, as a number or slice (symbolic ones are specialised).

    Args:
        tracer: the tracer.
        key: the subscript.
        use: the operation of Python on it, which raises for an invalid index.
    """
    key = realise(tracer, key)
    if isinstance(key, SliceVariable):
        return key.value(tracer)
    if isinstance(key, SymbolicVariable):
        key = ConstantVariable(key.specialise())
    if not key.is_constant() and not key.fits_a_node() and hasattr(key.python_type(), "__index__"):  # a user's object
        key = special_results.checked(tracer, "__index__", tracer.call_special(key, "__index__", []), key)
    if key.is_constant():
        value = cast(Any, key.constant())
        if isinstance(value, (int, slice)):
            return value
        if hasattr(value, "__index__"):
            return int(value.__index__())
        tracer.evaluate(use, (value,))
    raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, f"an index {key.describe()}", name="__getitem__", type="list")
