"""A function of NumPy, traced as the function of that name in ``torch._numpy``.

    np.sin(a)      a node wrapped_sin on the tensor that represents a in the graph

In torch: torch/_dynamo/variables/misc.py (NumpyVariable). Read next: nbcompile/tracing/variables/ndarray.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from nbcompile.capture import arrays
from nbcompile.capture.arrays import ArrayFunction
from nbcompile.capture.recipe import Constant, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.known_callables import SkippedVariable
from nbcompile.tracing.variables.ndarray import DELEGATING, RANDOM, NdarrayVariable, NumpyCall, apply, as_array, renamed
from nbcompile.tracing.variables.tensor import TensorVariable


class NumpyFunctionVariable(VariableTracker):
    """A function of NumPy: a call is a node, if ``torch._numpy`` has that function."""

    def __init__(self, value: Callable[..., object], source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return "NumpyVariable()"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        value = tracer.evaluate(getattr, (self.value, name))
        if callable(value) and not isinstance(value, type):
            reason = breaks.unsupported(breaks.NUMPY_METHOD, f"numpy function: {self.value}.{name}", name=name)
            return SkippedVariable(value, reason, None if self.source is None else AttrSource(self.source, name))
        return tracer.constant_or_wrap(value)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        traceable = arrays.torch_function(self.value)
        name = getattr(self.value, "__name__", str(self.value))
        if traceable is None:
            raise breaks.unsupported(breaks.NUMPY_FUNCTION, f"numpy function: {self.value}", name=name)
        known = traceable.__name__
        if known in RANDOM:
            return as_array(tracer.apply(ArrayFunction(traceable, known), arguments, keywords), known)
        if any(isinstance(realise(tracer, each), TensorVariable) for each in arguments):
            return _of_tensors(tracer, self.value, traceable, arguments, keywords)
        target = ArrayFunction(traceable, known)
        return apply(tracer, target, known, arguments, renamed(known, keywords), NumpyCall(self.value, keywords))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, getattr(self.value, "__name__", "function"))


def _of_tensors(
    tracer: Tracer, function: object, traceable: Callable[..., object], arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    """A function of NumPy on tensors: a ufunc returns a tensor, in eager mode, too."""
    name = traceable.__name__
    if name in DELEGATING:
        raise breaks.unsupported(breaks.NUMPY_FUNCTION, f"numpy function: {function} of a tensor", name=name)
    result = apply(tracer, ArrayFunction(traceable, name), name, arguments, renamed(name, keywords))
    is_ufunc = isinstance(function, arrays.numpy().ufunc)  # type: ignore[union-attr]
    return result.tensor if is_ufunc and isinstance(result, NdarrayVariable) else result
