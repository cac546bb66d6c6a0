"""Numbers, tensors and arrays: what a graph computes with.

    3                 EQUALS_MATCH, or a symbolic number
    a tensor          TENSOR_MATCH and a graph input
    one that wraps    the same, of itself and of the tensors inside
    an array          as the tensor that shares its memory

In torch: torch/_dynamo/variables/builder.py (wrap_tensor, wrap_symint, wrap_symfloat).
Read next: nbcompile/tracing/inputs/dynamism.py
"""

from __future__ import annotations

import cmath
import copy
import enum
import inspect
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from nbcompile import config, errors, torch_internals
from nbcompile.capture import arrays
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import (
    ROOTS,
    ArraySource,
    AttrSource,
    Source,
)
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lookup import MISSING, class_lookup
from nbcompile.tracing.variables.ndarray import Kind, NdarrayVariable
from nbcompile.tracing.variables.numpy_function import NumpyFunctionVariable
from nbcompile.tracing.variables.plain_values import PlainValueVariable
from nbcompile.tracing.variables.subclasses import PLAIN, SubclassVariable, is_traceable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.wrappers import WrapperVariable
from nbcompile.tracing.wrapping.callables import guard_function


def wrap_constant(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A constant, or a number that stays symbolic."""
    # A number that differed between calls is a symbol of the graph; others are constants with a guard.
    if source is not None and type(value) in (int, float) and _is_symbolic(tracer, value, source):  # type: ignore[arg-type]
        return symbolic_number(tracer, value, source)  # type: ignore[arg-type]
    if source is not None:
        tracer.guard(source, constant_guard_kind(value), value)
    return ConstantVariable(value, source)


def constant_guard_kind(value: object) -> GuardKind:
    """Return the kind of guard that recognises a constant."""
    if value is None:
        return GuardKind.NONE_MATCH
    if isinstance(value, bool):
        return GuardKind.BOOL_MATCH
    if isinstance(value, (enum.Enum, types.CodeType)) or value in (..., NotImplemented):
        # ``==`` of an enum member or a code object may be the user's, or too lenient: they are known by identity.
        return GuardKind.ID_MATCH
    if isinstance(value, float | complex) and cmath.isnan(value):
        return GuardKind.NAN_MATCH
    return GuardKind.EQUALS_MATCH


def wrap_plain_value(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A value of a class in C that never changes: its class, until its value is read."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return PlainValueVariable(value, source)


def _is_symbolic(tracer: Tracer, value: float, source: Source) -> bool:
    dynamism = tracer.output.dynamism
    if isinstance(value, float):
        # SymPy's zero has neither sign nor type, and it has no infinities and no nan that compare as Python's.
        return math.isfinite(value) and value != 0 and dynamism.is_symbolic_float(value, source)
    return dynamism.is_symbolic_int(value, source) and not (
        _is_fixed(tracer, source) and not config.allow_unspec_int_on_nn_module
    )


def _is_fixed(tracer: Tracer, source: Source) -> bool:
    """True if a number belongs to a module: those are taken for settings, which rarely change."""
    while not isinstance(source, ROOTS):
        source = source.base
        if isinstance(tracer.real_value(source), torch.nn.Module):
            return True
    return False


def symbolic_number(tracer: Tracer, value: float, source: Source) -> VariableTracker:
    """An int or a float that stays symbolic."""
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    if isinstance(value, int):
        return SymbolicVariable(tracer.output.inputs.integer(value, source), source)
    item = tracer.output.inputs.real_number(value, source)
    return SymbolicVariable(tracer.output.number_of(item), source)


def wrap_tensor(tracer: Tracer, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A tensor: an input of the graph."""
    if torch_internals.is_wrapper(value):
        return _wrapper(tracer, value, source)
    # A subclass with behaviour that tracing does not follow is passed on, and breaks the graph when it is used.
    if type(value) not in PLAIN and not is_traceable(type(value)):
        if source is not None:
            tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        return UnsupportedTensorVariable(value, source)
    if value.is_sparse or value.layout in rules.SPARSE_COMPRESSED:
        raise breaks.unsupported(breaks.SPARSE_INPUT, str(value.layout))
    if value.is_nested and value.layout is torch.strided:
        raise breaks.unsupported(breaks.STRIDED_NESTED_INPUT, "a nested tensor")
    if source is None:
        # A tensor without an address is a constant of the program: it is kept, and is an input all the same.
        source = tracer.keep(value, "tensor")
    node = tracer.output.inputs.tensor(value, source)
    tracer.guard(source, GuardKind.TENSOR_MATCH)  # its sizes are filled in when all is traced
    if type(value) in PLAIN:
        return tracer.side_effects.remember(value, TensorVariable(node, source, type(value)))
    return tracer.side_effects.remember(value, SubclassVariable(node, type(value), source))


def _wrapper(tracer: Tracer, value: Any, source: Source | None) -> VariableTracker:
    """A tensor that wraps others: each of them is guarded, and so is the metadata of its class."""
    if source is None:
        source = tracer.keep(value, "tensor")
    _check_metadata_guard(value)
    inside, context = value.__tensor_flatten__()
    metadata = _own_copy(value, context)
    if metadata is None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        return UnsupportedTensorVariable(value, source)
    node = tracer.output.inputs.tensor(value, source)
    tracer.guard(source, GuardKind.TENSOR_MATCH)
    tracer.guard(source, GuardKind.TENSOR_SUBCLASS_METADATA_MATCH, metadata[0])
    tracker = tracer.side_effects.remember(value, WrapperVariable(node, source, type(value)))
    for name in inside:
        tracer.wrap(getattr(value, name), AttrSource(source, name))
    return tracker


def _check_metadata_guard(value: Any) -> None:
    """Check that the class's own comparison of metadata is one that can be called.

    Raises:
        errors.InvalidMetadataGuard: it is not.
    """
    compare = getattr(value, "__metadata_guard__", None)
    if compare is None:
        return
    try:
        parameters = inspect.signature(compare).parameters
    except (TypeError, ValueError) as error:
        raise errors.InvalidMetadataGuard(f"{type(error).__name__}: {error}") from error
    if len(parameters) != 2:
        raise errors.InvalidMetadataGuard(
            "Tensor subclass method __metadata_guard__ must take exactly two subclass metadata arguments"
        )
    if getattr(compare, "__self__", None) is not type(value):
        raise errors.InvalidMetadataGuard("Tensor subclass method __metadata_guard__ must be a classmethod")


def _own_copy(value: Any, context: object) -> tuple[object] | None:
    """A copy of a tensor's metadata, as the class may change it in place.

    None where no guard could hold: it cannot be copied, or is not what it was a moment ago by its own comparison.
    """
    compare: Callable[[object, object], object] = getattr(type(value), "__metadata_guard__", operator.eq)
    try:
        metadata = copy.deepcopy(context)
        return (metadata,) if compare(metadata, value.__tensor_flatten__()[1]) else None
    except Exception:  # noqa: BLE001
        return None


class UnsupportedTensorVariable(UnknownVariable):
    """A tensor subclass: it can be passed on, and breaks the graph when it is used."""

    def proxy(self) -> object:
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, type(self.value).__name__, name=type(self.value).__name__)

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        stored = vars(self.value).get(name, MISSING) if class_lookup(type(self.value), name) is MISSING else MISSING
        if stored is not MISSING and self.source is not None:  # as of any object: nothing here can replace it
            return LazyVariable(stored, AttrSource(self.source, name))
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, type(self.value).__name__, name=type(self.value).__name__)


def wrap_array(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A NumPy array or scalar: a tensor input, with the same memory."""
    if not config.trace_numpy:
        if source is not None:
            tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        return UnknownVariable(value, source)
    if source is None:
        source = tracer.keep(value, "array")
    # As in torch, an array is a tensor with the same memory, and NumPy's functions become torch's.
    try:
        tensor = arrays.from_array(value)
    except (TypeError, ValueError) as error:  # of strings; with negative strides
        dtype = getattr(value, "dtype", None)
        raise breaks.unsupported(breaks.NDARRAY_CONVERSION, str(value), dtype=dtype) from error
    below = ArraySource(source)
    node = tracer.output.inputs.tensor(tensor, below)
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    tracer.guard(below, GuardKind.TENSOR_MATCH)
    kind: Kind = "scalar" if arrays.is_scalar(value) else "array"
    tracker = NdarrayVariable(TensorVariable(node, below), kind, source, cls=type(value))
    return tracer.side_effects.remember(value, tracker)


def wrap_numpy_function(tracer: Tracer, value: Callable[..., object], source: Source | None) -> VariableTracker:
    """A function of NumPy, traced as the one of torch that does the same."""
    if not _is_module_function(tracer, source):
        guard_function(tracer, value, source)
    return NumpyFunctionVariable(value, source)


def _is_module_function(tracer: Tracer, source: Source | None) -> bool:
    """True if it is a member of NumPy itself: np.random.rand is another object at each look-up."""
    owner = tracer.real_value(source.base) if isinstance(source, AttrSource) else None
    return isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] == "numpy"
