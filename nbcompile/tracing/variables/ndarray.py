"""A NumPy array, traced as a tensor: functions, methods and operators become nodes on tensors.

    np.sin(a) + a.sum()      wrapped_sin, wrapped_sum, wrapped_add

Outputs of the graph are converted to arrays again (to scalars, where NumPy returns one).

In torch: torch/_dynamo/variables/tensor.py (NumpyNdarrayVariable) and misc.py
(NumpyVariable). Read next: nbcompile/capture/arrays.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.fx

from nbcompile import config
from nbcompile.capture import arrays
from nbcompile.capture.arrays import ArrayFunction, ArrayMethod
from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.tensor import TENSOR_METHODS, TensorVariable

GRAPH_ATTRIBUTES = ("T", "real", "imag", "flat")
KNOWN_ATTRIBUTES = ("ndim", "itemsize")
UNTRACED_METHODS = ("tostring", "tobytes", "__delattr__")
KEYWORDS_OF_CLIP = {"a_min": "min", "a_max": "max"}
KEEP_RANK = frozenset(
    "array asarray asanyarray ascontiguousarray copy reshape zeros ones full empty zeros_like ones_like full_like "
    "empty_like squeeze astype view ravel transpose expand_dims".split()
)
"""Functions whose result without dims is an array; others return a scalar."""
LISTS = frozenset(("split", "array_split", "hsplit", "vsplit", "dsplit"))
"""Functions that return a list of arrays (those of ``torch._numpy`` return a tuple)."""
DELEGATING = frozenset(
    "mean sum prod max min amax amin std var argmax argmin argsort sort cumsum cumprod reshape squeeze transpose clip "
    "ravel swapaxes repeat take all any round around diagonal trace nonzero searchsorted ptp choose".split()
)
"""Functions that call the method of their argument: of a tensor, torch's."""

RANDOM = frozenset("seed random_sample random rand uniform randn normal shuffle randint choice".split())
"""Functions that draw from torch's stream of random numbers, as in torch.compile: NumPy's generator is not used."""

Kind = Literal["array", "scalar", "number"]
TO_NUMPY: dict[Kind, Callable[..., object]] = {
    "array": arrays.to_array,
    "scalar": arrays.to_scalar,
    "number": arrays.to_number,
}


class NdarrayVariable(VariableTracker):
    """An array of the traced program: a tensor in the graph."""

    def __init__(
        self, tensor: TensorVariable, kind: Kind = "array", source: Source | None = None, *, cls: type | None = None
    ) -> None:
        self.tensor = tensor
        self.cls = cls
        """The class of an array from outside, which may be a subclass of the program's; None: NumPy's own."""
        self.kind: Kind = kind if tensor.example.dim() == 0 else "array"
        """Kind of the value in NumPy: an array (also one without dims), a scalar (np.float64), a number of Python's."""
        self.source = source
        """Source of the array itself; the tensor's source is derived from it."""

    def python_type(self) -> type:
        return type(TO_NUMPY[self.kind](torch.zeros((), dtype=self.dtype())))

    def dtype(self) -> torch.dtype:
        """Dtype of its tensor in the graph."""
        return self.tensor.example.dtype

    def describe(self) -> str:
        return "NumpyNdarrayVariable()"

    def proxy(self) -> object:
        return self.tensor.node

    def hash_key(self, tracer: Tracer) -> Hashable:
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"hash({self.describe()})", name="hash of an array")

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(self.python_type(), None)
        if name in GRAPH_ATTRIBUTES:
            return as_array(tracer.apply(arrays.array_attribute, (self, ConstantVariable(name))), name)
        if name in KNOWN_ATTRIBUTES:
            return self.tensor.get_attribute(tracer, name)
        if name == "shape":
            return TupleVariable(tracer.sizes(self.tensor, "size").unpack(tracer))
        if name == "size":
            return self.tensor.call_method(tracer, "numel", [], {})
        if callable(getattr(self.python_type(), name, None)):
            return BuiltinMethodVariable(self, name)
        if self.cls in (None, self.python_type()):
            self.check_attribute(tracer, name)
        raise breaks.unsupported(breaks.NDARRAY_ATTRIBUTE, f"var_getattr {self.describe()} {name}", name=name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        context = f"call_method {self.describe()} {name}"
        if name == "astype" and _names_objects(arguments):
            raise breaks.unsupported(breaks.NDARRAY_OBJECTS, context)
        if name in UNTRACED_METHODS:
            raise breaks.unsupported(breaks.NDARRAY_METHOD, context, name=name)
        if name == "tolist":
            return self.tensor.call_method(tracer, name, arguments, keywords)
        if name == "__len__":
            return self.length(tracer)
        if name == "__iter__":
            return self.iterate(tracer)
        return apply(tracer, ArrayMethod(name), name, [self, *arguments], renamed(name, keywords))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return operate(tracer, operator.getitem, [self, key])

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.call_method(tracer, "__setitem__", [key, value], {})

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self.call_method(tracer, "__contains__", [item], {}).truth(tracer)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return tracer.iterator(self.unpack(tracer))

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return [as_array(each, "getitem") for each in self.tensor.unpack(tracer)]

    def length(self, tracer: Tracer) -> VariableTracker:
        return self.tensor.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.tensor.truth(tracer)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        to_numpy = Constant(TO_NUMPY[self.kind], f"to_{self.kind}")
        return reconstruction.shared(self, lambda: Call(to_numpy, (reconstruction.graph_output(self.tensor.node),)))


def _is_known_array(tracker: VariableTracker) -> bool:
    return arrays.is_array(getattr(tracker, "value", None))


@dataclass(frozen=True, slots=True)
class NumpyCall:
    """The call in the program of NumPy's own function, which determines dtype and rank of the result."""

    function: Callable[..., object]
    keywords: Keywords
    """Keyword arguments by NumPy's names, which may differ from those of ``torch._numpy``."""


def apply(
    tracer: Tracer,
    target: ArrayFunction | ArrayMethod,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
    original: NumpyCall | None = None,
) -> VariableTracker:
    """Add a node of a function or method of NumPy; return its result as arrays.

    Args:
        tracer: the interpreter.
        target: the target of the node.
        name: the name of the function.
        arguments: positional arguments.
        keywords: keyword arguments, by the names of ``torch._numpy``.
        original: the call in the program; None for a method.
    """
    values = [_plain(realise(tracer, value)) for value in arguments]
    named = {key: _plain(realise(tracer, value)) for key, value in keywords.items()}
    if original is None and any(map(_is_known_array, (*values, *named.values()))):
        # The dtype of a method's result is not read from NumPy, and that for np.float64(1) differs from that for 1.0.
        raise breaks.unsupported(breaks.NDARRAY_METHOD, f"{name} of a scalar that is known", name=name)
    result = as_array(tracer.apply(target, values, named), name)
    if isinstance(result, NdarrayVariable) and isinstance(target, ArrayFunction) and original is not None:
        # ``torch._numpy`` promotes dtypes by its own rules. NumPy itself is called, with
        # ones instead of the data, so that the result depends only on dtypes and sizes.
        from_numpy = _numpy_result(tracer, original, arguments)
        result = _with_numpy_dtype(tracer, result, target, values, named, from_numpy)
    if isinstance(result, NdarrayVariable):
        if name in KEEP_RANK and values and isinstance(values[0], NdarrayVariable):
            result.kind = values[0].kind
        return result
    return ListVariable(result.items) if name in LISTS and isinstance(result, TupleVariable) else result


def _with_numpy_dtype(
    tracer: Tracer, result: NdarrayVariable, target: ArrayFunction, values: Arguments, named: Keywords, from_numpy: Any
) -> VariableTracker:
    """Convert a result to NumPy's dtype; a break if the result of ``torch._numpy`` has another rank."""
    if from_numpy is None or not hasattr(from_numpy, "dtype"):
        return result
    if from_numpy.ndim != result.tensor.example.dim():
        raise breaks.unsupported(breaks.NUMPY_FUNCTION, f"numpy function: {target.name}", name=target.name)
    expected = arrays.torch_dtype(from_numpy)
    if expected is result.dtype():
        return result
    # The node is created anew, with the dtype as a part of it: a conversion of its
    # result would come after the operands were rounded to the smaller type.
    tracer.output.erase(result.tensor.node)
    return as_array(tracer.apply(replace(target, dtype=expected), values, named), target.name)


def _numpy_result(tracer: Tracer, original: NumpyCall, arguments: Arguments) -> object:
    try:
        values = [_ones_like(realise(tracer, each)) for each in arguments]
        named = {key: _ones_like(realise(tracer, each)) for key, each in original.keywords.items()}
    except _Unknown:
        return None
    return arrays.numpy_result(original.function, values, named)


class _Unknown(Exception):
    """A value that cannot be passed to NumPy."""


def _ones_like(value: VariableTracker) -> object:
    match value:
        case NdarrayVariable():
            sizes = [int(size) if isinstance(size, int) else size.node.hint for size in value.tensor.example.shape]
            array: Any = arrays.ones(sizes, value.dtype())
            return array if value.kind == "array" else array[()]
        case ListVariable():
            return [_ones_like(each) for each in value.items]
        case TupleVariable():
            return tuple(_ones_like(each) for each in value.items)
        case ClassVariable():
            return value.value
        case _ if value.is_constant():
            return value.constant()
    raise _Unknown


def make_scalar(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``np.float32(3)``."""
    result = apply(
        tracer, ArrayFunction(arrays.torch_scalar_type(cls), cls.__name__), cls.__name__, arguments, keywords
    )
    assert isinstance(result, NdarrayVariable)
    return result


def operate(tracer: Tracer, function: Callable[..., object], arguments: Arguments) -> VariableTracker:
    """An operator of which an operand is an array: ``a + 1``, ``a[0]``."""
    name = function.__name__
    result = apply(tracer, ArrayFunction(function, name, True), name, arguments, {}, NumpyCall(function, {}))
    if function is operator.getitem and isinstance(result, NdarrayVariable) and _has_ellipsis(arguments[1]):
        result.kind = "array"  # a[..., 0] is an array, a[0] an item
    return result


def _has_ellipsis(key: VariableTracker) -> bool:
    parts = key.items if isinstance(key, TupleVariable) else [key]
    return any(each.is_constant() and each.constant() is ... for each in parts)


def as_array(result: VariableTracker, name: str) -> VariableTracker:
    """Result of a node, with arrays for its tensors."""
    match result:
        case TensorVariable():
            return NdarrayVariable(result, "number" if name == "item" else "array" if name in KEEP_RANK else "scalar")
        case TupleVariable():
            return TupleVariable([as_array(each, name) for each in result.items])
        case ListVariable():
            return ListVariable([as_array(each, name) for each in result.items])
    return result


def has_array(values: Arguments) -> bool:
    """True if an array is among some values, or within one of them."""
    return any(
        isinstance(value, NdarrayVariable) or (isinstance(value, SequenceVariable) and has_array(value.items))
        for value in values
    )


def _plain(value: VariableTracker) -> VariableTracker:
    """A class of NumPy's (np.float32), of Python's (float) or a dtype by its name: graphs contain no NumPy objects."""
    known = getattr(value, "value", None)
    if isinstance(known, type):
        return ConstantVariable(known.__name__)
    return ConstantVariable(known.name) if arrays.is_dtype(known) else value  # type: ignore[union-attr]


def renamed(name: str, keywords: Keywords) -> Keywords:
    """Keyword arguments, by torch's names."""
    return {KEYWORDS_OF_CLIP.get(key, key): each for key, each in keywords.items()} if name == "clip" else keywords


def _names_objects(arguments: Arguments) -> bool:
    first = arguments[0] if arguments else None
    return first is not None and (
        getattr(first, "value", None) is object or (first.is_constant() and first.constant() == "O")
    )


def _to_numpy(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    """``tensor.numpy()``: a view of it as an array."""
    if not config.trace_numpy:
        raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, "Tensor.numpy", name="numpy", type="Tensor")
    given = arguments[0] if arguments else keywords.get("force")
    if given is not None and given.constant():
        detached = tensor.call_method(tracer, "detach", [], {})
        return as_array(detached.call_method(tracer, "cpu", [], {}), "array")
    if tensor.example.requires_grad:
        message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        tracer.raise_exception(RuntimeError, message)
    return as_array(tracer.apply_method("view_as", [tensor, tensor]), "array")


TENSOR_METHODS["numpy"] = _to_numpy
