"""Objects with attributes: classes, modules and instances. An attribute is guarded when it is read.

In torch: torch/_dynamo/variables/builder.py (wrap_module, wrap_user_defined). Read next:
nbcompile/tracing/variables/objects.py
"""

from __future__ import annotations

import collections
import contextvars
import random
import types
import weakref
from typing import Any

import torch

from nbcompile import annotations as marks, config
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ConstantSource, ModuleSource, NoArgsCallSource, Source
from nbcompile.support.real_class import is_instance
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import annotations as known_annotations, registry
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import context_table
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker
from nbcompile.tracing.variables.classes import ClassVariable, ModuleVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.context_variables import ContextVarVariable
from nbcompile.tracing.variables.exceptions import GivenExceptionVariable
from nbcompile.tracing.variables.function_modes import FunctionModeVariable, is_plain_mode
from nbcompile.tracing.variables.known_callables import SkippedVariable
from nbcompile.tracing.variables.lookup import address_of, class_lookup, dict_source
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.random_numbers import RandomVariable
from nbcompile.tracing.variables.self_dicts import SelfDictVariable, is_own_dict
from nbcompile.tracing.variables.triton_kernels import TritonKernelVariable
from nbcompile.tracing.variables.type_forms import TypeFormVariable
from nbcompile.tracing.variables.weak_reference import WeakReferenceVariable
from nbcompile.tracing.wrapping.callables import guard_function, is_trusted
from nbcompile.tracing.wrapping.containers import wrap_deque, wrap_dict, wrap_items, wrap_sequence, wrap_set


def wrap_class(tracer: Tracer, value: type, source: Source | None) -> VariableTracker:
    """A class, guarded to be this one."""
    # A class with the same attributes is not enough: what the
    # trace knows of methods and bases is of this very object.
    if source is not None and not isinstance(source, ConstantSource):
        tracer.guard(source, GuardKind.ID_MATCH, value)
    address = address_of(value) if source is None else source
    if marks.mark_of(value):
        return known_annotations.annotated(value) or ClassVariable(value, address)
    return ClassVariable(value, address)


def wrap_module(tracer: Tracer, value: types.ModuleType, source: Source | None) -> VariableTracker:
    """A module, or what is used as one: ``torch._C._VariableFunctions``."""
    if isinstance(source, ModuleSource) or is_trusted(tracer, source):
        tracer.assume(source, value)
    elif source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return ModuleVariable(value, source)


def wrap_nn_module(tracer: Tracer, value: torch.nn.Module, source: Source | None) -> VariableTracker:
    """A module of torch's: it stays an object, with its own address."""
    if isinstance(value, (torch.nn.RNNBase,)) and not config.allow_rnn:
        raise breaks.unsupported(breaks.RNN, type(value).__name__)
    if not vars(value):
        raise breaks.unsupported(breaks.UNINITIALISED_MODULE, type(value).__name__, name=type(value).__name__)
    if source is None:
        source = tracer.keep(value, type(value).__name__)
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    forward = vars(value).get("forward")
    if registry.is_compiled_module(value) and isinstance(forward, types.FunctionType):
        disabled = registry.disabled(forward)
        if disabled is not None:  # torch.compiler.disable(module)
            return SkippedVariable(value, disabled, source)
    if registry.is_compiled_module(value):
        return tracer.wrap(value._orig_mod, AttrSource(source, "_orig_mod"))
    return tracer.side_effects.remember(value, NNModuleVariable(type(value), value, source))


def wrap_weak_reference(tracer: Tracer, value: weakref.ref[Any], source: Source | None) -> VariableTracker:
    """A weak reference that the program was given: what it refers to is looked at when it is called."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    address = source if source is not None else tracer.keep(value, "reference")
    referent = tracer.wrap(value(), None) if source is None else LazyVariable(value(), NoArgsCallSource(source))
    return WeakReferenceVariable(referent, (), address)


def wrap_context(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A context manager that is known by what it does: ``torch.no_grad()``."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        for name in ("mode", "prev", "device", "fast_dtype", "_enabled", "_cache_enabled", "error_on_graph_break"):
            if name in getattr(value, "__dict__", {}):
                tracer.wrap(getattr(value, name), AttrSource(source, name))
    context = context_table.from_object(value, source)
    assert context is not None
    return tracer.side_effects.remember(value, context)


def wrap_object(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """An instance of a class that was written in Python, with what it has from a built-in base."""
    if callable(value) and marks.is_marked(value):
        # What the program declared about this very object; of an operator without an address nothing is guarded.
        annotation = known_annotations.annotated(value)
        if annotation is not None:
            guard_function(tracer, value, source)
            annotation.source = source
            return annotation
    if source is not None and _hides_its_length(value):
        return UnknownVariable(value, source)
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    tracker = _kind_of(tracer, value, source)(type(value), value, source)
    kinds: tuple[tuple[type, Any], ...] = (
        (list, wrap_sequence), (tuple, wrap_items), (dict, wrap_dict), (set, wrap_set),
        (collections.deque, wrap_deque),
    )  # fmt: skip
    for base, make in kinds:
        if is_instance(value, base):
            tracker.base_items = make(tracer, value, source)
            # The items were remembered as the tracker of this object; that is to be the one below.
            tracer.side_effects.forget(value)
    # Of an object of a subclass, operators take the plain number or text inside (built_in_part).
    scalars: tuple[Any, ...] = (int, float, complex, str, bytes)
    for scalar in scalars:
        if is_instance(value, scalar):
            if source is not None:
                tracer.guard(source, GuardKind.EQUALS_MATCH, value)
            tracker.base_items = ConstantVariable(_plain(scalar, value))
    return tracer.side_effects.remember(value, tracker)


def wrap_exception(tracer: Tracer, value: BaseException, source: Source | None) -> VariableTracker:
    """An exception, which is an object with what C code keeps in it."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return tracer.side_effects.remember(value, GivenExceptionVariable(type(value), value, source))


def _kind_of(tracer: Tracer, value: object, source: Source | None) -> type[ObjectVariable]:
    """The class of an object's tracker."""
    if type(value) is random.Random:
        return RandomVariable
    if is_own_dict(value):
        if source is not None:
            tracer.guard(dict_source(source, type(value)), GuardKind.OBJECT_ALIASING, source)
        return SelfDictVariable
    return FunctionModeVariable if is_plain_mode(type(value)) else ObjectVariable


def _hides_its_length(value: object) -> bool:
    """True of a container whose class counts its items in its own way: a guard on its length would ask that."""
    containers = (list, tuple, set, collections.deque)
    return is_instance(value, containers) and isinstance(class_lookup(type(value), "__len__"), types.FunctionType)


def wrap_triton_kernel(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A Triton kernel of the user's: a node of the graph where it can be launched, or simulated for a target.

    Without a GPU and a target it is an object like any other: what Triton does with it, an error, is eager mode's.
    """
    if not tracer.output.launches_kernels:
        return wrap_object(tracer, value, source)
    if source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return TritonKernelVariable(value, source)


def _plain(scalar: Any, value: Any) -> Any:
    """The number or text in an object of a subclass, whatever its own methods make of it."""
    return scalar(*scalar.__getnewargs__(value)) if hasattr(scalar, "__getnewargs__") else scalar(value)


def wrap_type_form(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """``list[int]``, ``Optional[T]``: a value like any other."""
    if source is not None and not is_trusted(tracer, source):
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return TypeFormVariable(value, source)


def wrap_context_variable(tracer: Tracer, value: contextvars.ContextVar[Any], source: Source | None) -> VariableTracker:
    """A context variable, guarded to be this one."""
    if source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    variable = ContextVarVariable(value, source if source is not None else tracer.keep(value, "variable"))
    return tracer.side_effects.remember(value, variable)
