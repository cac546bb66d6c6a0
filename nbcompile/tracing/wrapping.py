"""A real value as a tracker, with the guards that its kind needs.

One table: the first row whose test accepts the value makes the tracker. The
kind of row decides what is promised about the value:

    3                 EQUALS_MATCH
    [a, b]            TYPE_MATCH, SEQUENCE_LENGTH; a and b when they are used
    a tensor          TENSOR_MATCH and a graph input
    an object         TYPE_MATCH; its attributes when they are read

In torch: torch/_dynamo/variables/builder.py (VariableBuilder). Read next:
nbcompile/tracing/rules.py
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import inspect
import math
import operator
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from nbcompile import config
from nbcompile.capture import arrays
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import (
    ROOTS,
    ArraySource,
    AttrSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    ModuleSource,
    Source,
    ValueSource,
    remaining,
)
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.functions import annotations as known_annotations, registry
from nbcompile.tracing.functions.builtins import fold
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import contexts
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker
from nbcompile.tracing.variables.classes import ClassVariable, ModuleVariable
from nbcompile.tracing.variables.constant import ConstantVariable, is_constant_value
from nbcompile.tracing.variables.functions import (
    BuiltinVariable,
    CachedFunctionVariable,
    FunctionVariable,
    MethodVariable,
    OperatorVariable,
    PolyfillVariable,
    SkippedVariable,
    UnboundMethodVariable,
)
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.mappings import DictVariable, SetVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable, NumpyFunctionVariable
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.sequences import (
    BuiltinMethodVariable,
    DequeVariable,
    ListVariable,
    RangeVariable,
    SequenceIteratorVariable,
    SliceVariable,
    TupleVariable,
)
from nbcompile.tracing.variables.subclasses import PLAIN, SubclassVariable, is_traceable
from nbcompile.tracing.variables.tensor import SymbolicVariable, TensorVariable
from nbcompile.tracing.variables.type_forms import TypeFormVariable, is_type_form


def wrap(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """The tracker of a real value; ``source`` None: a constant of the program, unguarded."""
    known = tracer.side_effects.known(value)
    if known is not None:
        if source is not None and known.source is not None and known.source != source:
            tracer.guard(source, GuardKind.OBJECT_ALIASING, known.source)
        return known
    for accepts, make in ROWS:
        if accepts(value):
            return make(tracer, value, source)
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return UnknownVariable(value, source)


def _constant(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    if source is not None and type(value) in (int, float) and _is_symbolic(tracer, value, source):  # type: ignore[arg-type]
        return symbolic_number(tracer, value, source)  # type: ignore[arg-type]
    if source is not None:
        kind = GuardKind.EQUALS_MATCH
        if value is None:
            kind = GuardKind.NONE_MATCH
        elif isinstance(value, bool):
            kind = GuardKind.BOOL_MATCH
        elif isinstance(value, (enum.Enum, types.CodeType)) or value in (..., NotImplemented):
            kind = GuardKind.ID_MATCH
        elif isinstance(value, float) and math.isnan(value):
            kind = GuardKind.NAN_MATCH
        tracer.guard(source, kind, value)
    return ConstantVariable(value, source)


def _is_symbolic(tracer: Tracer, value: float, source: Source) -> bool:
    dynamism = tracer.output.dynamism
    if isinstance(value, float):
        # SymPy's zero has neither sign nor type, and it has no infinities and no nan that compare as Python's.
        return math.isfinite(value) and value != 0 and dynamism.is_symbolic_float(value, source)
    return dynamism.is_symbolic_int(value, source) and not (
        _is_fixed(tracer, source) and not config.allow_unspec_int_on_nn_module
    )


def _is_fixed(tracer: Tracer, source: Source) -> bool:
    """Whether a number belongs to a module: those are taken for settings, which rarely change."""
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


def _tensor(tracer: Tracer, value: torch.Tensor, source: Source | None) -> VariableTracker:
    if type(value) not in PLAIN and not is_traceable(type(value)):
        return SkippedTensor(value, source)
    if value.is_sparse or value.layout in rules.SPARSE_COMPRESSED:
        raise breaks.unsupported(breaks.SPARSE_INPUT, str(value.layout))
    if source is None:
        source = tracer.keep(value, "tensor")
    node = tracer.output.inputs.tensor(value, source)
    tracer.guard(source, GuardKind.TENSOR_MATCH)  # its sizes are filled in when all is traced
    if type(value) in PLAIN:
        return tracer.side_effects.remember(value, TensorVariable(node, source, type(value)))
    return tracer.side_effects.remember(value, SubclassVariable(node, type(value), source))


def _array(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """A NumPy array or scalar: a tensor input, with the same memory."""
    if not config.trace_numpy:
        return UnknownVariable(value, source)
    if source is None:
        source = tracer.keep(value, "array")
    try:
        tensor = arrays.from_array(value)
    except (TypeError, ValueError) as error:  # of strings; with negative strides
        dtype = getattr(value, "dtype", None)
        raise breaks.unsupported(breaks.NDARRAY_CONVERSION, str(value), dtype=dtype) from error
    below = ArraySource(source)
    node = tracer.output.inputs.tensor(tensor, below)
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    tracer.guard(below, GuardKind.TENSOR_MATCH)
    made = NdarrayVariable(TensorVariable(node, below), "scalar" if arrays.is_scalar(value) else "array", source)
    return tracer.side_effects.remember(value, made)


def _numpy_function(tracer: Tracer, value: Callable[..., object], source: Source | None) -> VariableTracker:
    if not _is_module_function(tracer, source):
        _guard_function(tracer, value, source)
    return NumpyFunctionVariable(value, source)


def _is_module_function(tracer: Tracer, source: Source | None) -> bool:
    """Whether it is a member of NumPy itself: np.random.rand is another object at each look-up."""
    owner = tracer.real_value(source.base) if isinstance(source, AttrSource) else None
    return isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] == "numpy"


class SkippedTensor(UnknownVariable):
    """A tensor subclass: it can be passed on, and breaks the graph when it is used."""

    def proxy(self) -> object:
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, type(self.value).__name__, name=type(self.value).__name__)

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, type(self.value).__name__, name=type(self.value).__name__)


def _lazy(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    return tracer.wrap(value, None) if source is None else LazyVariable(value, source)


def _sequence(tracer: Tracer, value: list[object] | tuple[object, ...], source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
    fields = getattr(type(value), "_fields", None)
    items = [
        _lazy(
            tracer,
            item,
            None if source is None else AttrSource(source, fields[index]) if fields else ItemSource(source, index),
        )
        for index, item in enumerate(value)
    ]
    if isinstance(value, list):
        return tracer.side_effects.remember(value, ListVariable(items, source))
    return TupleVariable(items, source, type(value))


def _iterator(tracer: Tracer, value: Iterator[object], source: Source | None) -> VariableTracker:
    """An iterator over a tuple or a range; how far it is, is guarded."""
    if source is None:
        return UnknownVariable(value, source)
    left = remaining(value)
    if isinstance(left, range):
        tracer.guard(source, GuardKind.RANGE_ITERATOR_MATCH, (left.start, left.stop, left.step))
        items: list[VariableTracker] = [ConstantVariable(each) for each in left]
    else:
        tracer.guard(source, GuardKind.TUPLE_ITERATOR_LEN, len(left))
        items = [LazyVariable(each, IteratorItemSource(source, index)) for index, each in enumerate(left)]
    return tracer.side_effects.remember(value, SequenceIteratorVariable(TupleVariable(items), source))


def _deque(tracer: Tracer, value: collections.deque[object], source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
    items = [
        _lazy(tracer, item, None if source is None else ItemSource(source, index)) for index, item in enumerate(value)
    ]
    return tracer.side_effects.remember(value, DequeVariable(items, source, value.maxlen))


def _dict(tracer: Tracer, value: dict[object, object], source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    entries = [
        (
            tracer.wrap(key, KeySource(source, index) if source is not None and _is_by_position(key) else None),
            _lazy(tracer, item, None if source is None else _value_source(source, key, index)),
        )
        for index, (key, item) in enumerate(value.items())
    ]
    default = None
    if isinstance(value, collections.defaultdict) and value.default_factory is not None:
        default = tracer.wrap(value.default_factory, None if source is None else AttrSource(source, "default_factory"))
    return tracer.side_effects.remember(value, DictVariable(entries, source, type(value), default))


def _is_by_position(key: object) -> bool:
    return _is_plain_object(key) or isinstance(key, torch.Tensor)


def _value_source(mapping: Source, key: object, index: int) -> Source:
    return ValueSource(mapping, index) if isinstance(key, torch.Tensor) else ItemSource(mapping, key)


def _set(tracer: Tracer, value: set[object] | frozenset[object], source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(value))
        for item in value:
            tracer.guard(source, GuardKind.SET_CONTAINS, (item, True))
    members = [tracer.wrap(item, tracer.keep(item, "member") if _is_plain_object(item) else None) for item in value]
    tracker = SetVariable(members, source, type(value))
    return tracer.side_effects.remember(value, tracker) if isinstance(value, set) else tracker


def _mapping_proxy(tracer: Tracer, value: types.MappingProxyType, source: Source | None) -> VariableTracker:
    if source is not None:  # what is behind it has no address
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        return UnknownVariable(value, source)
    return MappingProxyVariable(
        DictVariable([(tracer.wrap(key, None), tracer.wrap(item, None)) for key, item in value.items()])
    )


def _type_form(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    if source is not None and not _is_trusted(tracer, source):
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return TypeFormVariable(value, source)


def _slice(tracer: Tracer, value: slice, source: Source | None) -> VariableTracker:
    parts = [
        tracer.wrap(getattr(value, name), None if source is None else AttrSource(source, name))
        for name in ("start", "stop", "step")
    ]
    return SliceVariable(parts, source)


def _range(tracer: Tracer, value: range, source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.EQUALS_MATCH, value)
    return RangeVariable(value, source)


def _callable(tracer: Tracer, value: Callable[..., object], source: Source | None) -> VariableTracker:
    """Functions of every kind that a table knows, or that become nodes."""
    special = known_annotations.logging_handler(value) or registry.handler(value)
    if special is not None:
        _guard_function(tracer, value, source)
        return BuiltinVariable(value, special, source)
    told = known_annotations.annotated(value)
    if told is not None:
        _guard_function(tracer, value, source)
        told.source = source
        return told
    polyfill = registry.polyfill(value)
    if polyfill is not None:
        _guard_function(tracer, value, source)
        return PolyfillVariable(value, polyfill, source)
    wanted = known_annotations.substitute(value)
    if wanted is not None:
        _guard_function(tracer, value, source)
        return PolyfillVariable(value, wanted, source)
    if rules.is_operator(value):
        _guard_function(tracer, value, source)
        return OperatorVariable(value, source)
    if isinstance(value, types.FunctionType):
        return _function(tracer, value, source)
    if isinstance(value, functools._lru_cache_wrapper):  # what it keeps is not looked at: the function itself is traced
        _guard_function(tracer, value, source)
        inner = None if source is None else AttrSource(source, "__wrapped__")
        return CachedFunctionVariable(wrap(tracer, value.__wrapped__, inner), value, source)
    if isinstance(value, types.BuiltinFunctionType) and value.__self__ in (int, float, str, bytes):
        return BuiltinVariable(value, lambda tracer, *given: fold(tracer, value, *given), source)  # int.from_bytes
    if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        _guard_function(tracer, value, source)
        return UnboundMethodVariable(value, source)
    name = getattr(value, "__qualname__", getattr(value, "__name__", str(value)))
    module = getattr(value, "__module__", None)
    context = (
        f"module: {module}, qualname: {name}, skip reason: cannot determine source file for {module} "
        "(likely a C extension or builtin)"
    )
    of_python = module == "builtins" or getattr(builtins, name, None) is value
    kind = breaks.BUILTIN_OPERATOR if of_python else breaks.BUILTIN_FUNCTION
    _guard_function(tracer, value, source)
    return SkippedVariable(
        value,
        breaks.unsupported(kind, context, name=f"{module}.{name}" if module else name, types="of this call"),
        source,
    )


def _function(tracer: Tracer, value: types.FunctionType, source: Source | None) -> VariableTracker:
    if value.__qualname__ == GENERATION_TAG:
        _guard_function(tracer, value, source)
        return wrap(tracer, next(cell.cell_contents for cell in value.__closure__ or ()), None)
    disabled = registry.disabled(value)
    if disabled is not None:
        _guard_function(tracer, value, source)
        return SkippedVariable(value, disabled, source)
    _guard_function(tracer, value, source)
    if registry.is_compiled_wrapper(value):
        inner = wrap(tracer, inspect.unwrap(value, stop=lambda each: not registry.is_compiled_wrapper(each)), None)
        return contexts.strict(inner) if registry.wants_one_graph(value) else inner
    reason = rules.skip_reason(value.__code__.co_filename)
    if reason is not None:
        file = value.__code__.co_filename
        context = f"module: {value.__module__}, qualname: {value.__qualname__}, skip reason: {reason}"
        return SkippedVariable(
            value, breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=value.__qualname__, file=file), source
        )
    return FunctionVariable(value, source)


def _is_trusted(tracer: Tracer, source: Source | None) -> bool:
    """Whether it is a member of a module of torch or of the standard library."""
    if not isinstance(source, AttrSource):
        return False
    owner = tracer.real_value(source.base)
    return isinstance(owner, types.ModuleType) and rules.is_trusted_module(owner.__name__)


def _guard_function(tracer: Tracer, value: Callable[..., object], source: Source | None) -> None:
    # torch.sin of a guarded module torch, and the like, is taken as unchanging.
    if source is None or _is_trusted(tracer, source):
        return
    kind = GuardKind.FUNCTION_MATCH if isinstance(value, types.FunctionType) else GuardKind.ID_MATCH
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type):
        kind = GuardKind.EQUALS_MATCH  # chain.from_iterable is another object at each look-up
    tracer.guard(source, kind, value)


def _is_method_of_container(value: object) -> bool:
    return isinstance(value, types.BuiltinMethodType) and type(value.__self__) in (list, dict, set, collections.deque)


def _method_of_container(
    tracer: Tracer, value: types.BuiltinMethodType, source: Source | None
) -> BuiltinMethodVariable:
    """``xs.append`` as a value: a resume function is given it where the arguments of the call broke the graph."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, types.BuiltinMethodType)
        tracer.guard(AttrSource(source, "__name__"), GuardKind.EQUALS_MATCH, value.__name__)
    owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
    return BuiltinMethodVariable(owner, value.__name__)


def _method(tracer: Tracer, value: types.MethodType, source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, types.MethodType)
    function = tracer.wrap(value.__func__, None if source is None else AttrSource(source, "__func__"))
    owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
    if isinstance(owner, contexts.ContextVariable):  # torch.no_grad().clone, that a decorated function calls
        return owner.get_attribute(tracer, value.__name__)
    return MethodVariable(function, owner, source)


def _class(tracer: Tracer, value: type, source: Source | None) -> VariableTracker:
    if source is not None and not _is_trusted(tracer, source):
        tracer.guard(source, GuardKind.ID_MATCH, value)
    if "_dynamo_forbidden" in value.__dict__:
        return known_annotations.annotated(value) or ClassVariable(value, source)
    return ClassVariable(value, source)


def _module(tracer: Tracer, value: types.ModuleType, source: Source | None) -> VariableTracker:
    """A module, or what is used as one: ``torch._C._VariableFunctions``."""
    if source is not None and not isinstance(source, ModuleSource) and not _is_trusted(tracer, source):
        tracer.guard(source, GuardKind.ID_MATCH, value)
    return ModuleVariable(value, source)


def _nn_module(tracer: Tracer, value: torch.nn.Module, source: Source | None) -> VariableTracker:
    if isinstance(value, (torch.nn.RNNBase,)) and not config.allow_rnn:
        raise breaks.unsupported(breaks.RNN, type(value).__name__)
    if source is None:
        source = tracer.keep(value, type(value).__name__)
    tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return tracer.side_effects.remember(value, NNModuleVariable(type(value), value, source))


def _context(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        for name in ("mode", "prev", "device", "fast_dtype", "_enabled", "_cache_enabled", "error_on_graph_break"):
            if name in getattr(value, "__dict__", {}):
                tracer.wrap(getattr(value, name), AttrSource(source, name))
    made = contexts.from_object(value, source)
    assert made is not None
    return tracer.side_effects.remember(value, made)


def _partial(tracer: Tracer, value: functools.partial[object], source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    function = tracer.wrap(value.func, None if source is None else AttrSource(source, "func"))
    arguments = tracer.wrap(value.args, None if source is None else AttrSource(source, "args"))
    keywords = tracer.wrap(value.keywords, None if source is None else AttrSource(source, "keywords"))
    return PartialVariable(function, arguments, keywords, source)


def _object(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    tracker = ObjectVariable(type(value), value, source)
    kinds: tuple[tuple[type, Any], ...] = (
        (list, _sequence), (tuple, _sequence), (dict, _dict), (set, _set), (collections.deque, _deque),
    )  # fmt: skip
    for base, make in kinds:
        if isinstance(value, base):
            tracker.base_items = make(tracer, value, source)
            tracer.side_effects.trackers.pop(id(value), None)
    scalars: tuple[Any, ...] = (int, float, complex, str, bytes)
    for scalar in scalars:
        if isinstance(value, scalar):
            if source is not None:
                tracer.guard(source, GuardKind.EQUALS_MATCH, value)
            tracker.base_items = ConstantVariable(_plain(scalar, value))
    return tracer.side_effects.remember(value, tracker)


def _plain(scalar: Any, value: Any) -> Any:
    """The number or text in an object of a subclass, whatever its own methods make of it."""
    return scalar.__getnewargs__(value)[0] if hasattr(scalar, "__getnewargs__") else scalar(value)


def _is_plain_object(value: object) -> bool:
    """An object whose attributes may change while it stays a key or a member."""
    return _is_user_object(value) and not isinstance(value, (torch.Tensor, torch.nn.Module, enum.Enum, tuple))


def _getter(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """An ``operator.itemgetter`` and its like from outside: made again from what it was made of."""
    state: Any = value.__reduce__()
    made, given = state[:2]
    if isinstance(made, functools.partial):  # a methodcaller with keywords
        partial: Any = made
        made, given, named = partial.func, (*partial.args, *given), partial.keywords
    else:
        named = {}
    if source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    arguments = [tracer.constant_or_wrap(each) for each in given]
    keywords = {name: tracer.constant_or_wrap(each) for name, each in named.items()}
    return tracer.call(tracer.wrap(made, None), arguments, keywords)


def _is_user_object(value: object) -> bool:
    if type(value) is types.SimpleNamespace:
        return True
    return bool(type(value).__flags__ & (1 << 9)) and not isinstance(
        value, (type, BaseException, weakref.ref)
    )  # a heap type


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and (
        hasattr(type(value), "_fields") or type(value).__module__ == "torch.return_types"
    )


Row = tuple[Callable[[object], bool], Callable[[Tracer, object, "Source | None"], VariableTracker]]


def _is(*types_: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types_)


def _exactly(*types_: type) -> Callable[[object], bool]:
    return lambda value: type(value) in types_


GENERATION_TAG = "install_generation_tagging_init.<locals>.patched_init"
"""What a real torch.compile in the process makes of ``nn.Module.__init__``: the original, and a number for itself."""
CALLABLES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    functools._lru_cache_wrapper,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)

ROWS: list[Row] = [
    (lambda value: is_constant_value(value) and not isinstance(value, (tuple, frozenset, slice)), _constant),
    (_is(torch.Tensor), _tensor),  # type: ignore[list-item]
    (arrays.is_array, _array),
    (lambda value: arrays.twin(value) is not None, _numpy_function),  # type: ignore[list-item]
    (_exactly(list, tuple, torch.Size), _sequence),  # type: ignore[list-item]
    (_is_namedtuple, _sequence),  # type: ignore[list-item]
    (_exactly(dict, collections.OrderedDict, collections.defaultdict), _dict),  # type: ignore[list-item]
    (_exactly(type(iter(())), type(iter(range(0)))), _iterator),  # type: ignore[list-item]
    (_exactly(collections.deque), _deque),  # type: ignore[list-item]
    (_exactly(set, frozenset), _set),  # type: ignore[list-item]
    (_exactly(types.MappingProxyType), _mapping_proxy),  # type: ignore[list-item]
    (is_type_form, _type_form),
    (_exactly(slice), _slice),  # type: ignore[list-item]
    (_exactly(range), _range),  # type: ignore[list-item]
    (_is(torch.nn.Module), _nn_module),  # type: ignore[list-item]
    (lambda value: contexts.from_object(value, None) is not None, _context),
    (lambda value: isinstance(value, types.MethodType), _method),  # type: ignore[list-item]
    (_is_method_of_container, _method_of_container),  # type: ignore[list-item]
    (_exactly(functools.partial), _partial),  # type: ignore[list-item]
    (
        lambda value: (
            isinstance(value, CALLABLES) or (registry.handler(value) is not None and not isinstance(value, type))
        ),
        _callable,
    ),  # type: ignore[list-item]
    (_exactly(operator.itemgetter, operator.attrgetter, operator.methodcaller), _getter),
    (_is(type), _class),  # type: ignore[list-item]
    (lambda value: isinstance(value, types.ModuleType) or value is torch._C._VariableFunctions, _module),  # type: ignore[list-item]
    (_is_user_object, _object),
]
