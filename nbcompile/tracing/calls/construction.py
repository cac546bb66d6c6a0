"""Construction of objects by calls of classes, and attributes of classes.

    Point(1, y)       object.__new__, then Point.__init__ is traced
    Pair(a, b)        a named tuple, known item by item
    Color("red")      an enum member, a constant

In torch: torch/_dynamo/variables/user_defined.py (UserDefinedClassVariable).
Read next: nbcompile/tracing/variables/objects.py
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Sequence

import torch
from torch.utils.hooks import BackwardHook

from nbcompile import config, torch_internals
from nbcompile.capture import arrays
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import (
    AttrSource,
    ClassMemberSource,
    ConstantSource,
    MethodFunctionSource,
    Source,
    TypeSource,
)
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import (  # noqa: F401  (fills the tables)
    annotation_calls,
    attention_params,
    autograd,
    builtins,
    caches,
    checks,
    collectives,
    comptime,
    device_meshes,
    differentiation,
    factories,
    families,
    flex_attention,
    higher_order,
    library,
    nested_tensors,
    optimisers,
    parameters,
    process_state,
    regions,
    registry,
    tensor_hooks,
    torch_functions,
    totals,
    version_counters,
    warning_filters,
)
from nbcompile.tracing.calls.folding import fold
from nbcompile.tracing.calls.object_creation import make
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import context_table
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.exception_groups import class_of_group
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.functions import FunctionVariable, MethodVariable
from nbcompile.tracing.variables.getters import GETTERS, GetterVariable
from nbcompile.tracing.variables.known_callables import in_order
from nbcompile.tracing.variables.known_values import whole
from nbcompile.tracing.variables.lookup import BINDS, MISSING, address_of, class_lookup, is_class_method_in_c
from nbcompile.tracing.variables.mapping_proxy import ClassDictVariable
from nbcompile.tracing.variables.ndarray import make_scalar
from nbcompile.tracing.variables.objects import ObjectVariable, with_class_source
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor_methods import AddressVariable  # noqa: F401  (fills the table of methods)

FOLDED = (torch.dtype, torch.device, torch.finfo, torch.iinfo)


def instantiate(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``cls(...)``."""
    cls = owner.value
    arguments, keywords = in_order(tracer, cls, arguments, keywords)
    if cls is BackwardHook:  # created by a direct call of nn.Module.__call__(net, x)
        raise breaks.unsupported(breaks.BACKWARD_HOOKS, "BackwardHook(...)", name="The module")
    handler = registry.handler(cls)
    if handler is not None:
        return handler(tracer, arguments, keywords)
    polyfill = registry.polyfill(cls)
    if polyfill is not None:
        result = tracer.call(FunctionVariable(polyfill), *_for_polyfill(tracer, cls, arguments, keywords))
        return GetterVariable(cls, result, arguments, keywords) if cls in GETTERS else result
    manager = context_table.from_call(cls, tracer, arguments, keywords)
    if manager is not None:
        return manager
    if issubclass(cls, enum.Enum) or cls in FOLDED:
        return fold(tracer, cls, arguments, keywords)
    if arrays.is_type_info_class(cls):
        return fold(tracer, cls, [_class_as_constant(tracer, argument) for argument in arguments], keywords)
    if arrays.is_scalar_class(cls) and config.trace_numpy:
        return make_scalar(tracer, cls, arguments, keywords)
    return _of_base_class(tracer, owner, arguments, keywords)


def _of_base_class(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Create an object of a class without a handler, by its base classes."""
    cls = owner.value
    if issubclass(cls, torch.Tensor) and torch_internals.is_wrapper(cls):
        return tracer.apply(cls, arguments, keywords)
    if issubclass(cls, BaseException):
        return _exception(tracer, owner, arguments, keywords)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(tracer, owner, arguments, keywords)
    instance = _user_object(tracer, owner, arguments, keywords)
    if cls is torch.nn.CrossEntropyLoss:
        _drop_log_node(tracer)
    return instance


def _for_polyfill(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> tuple[Arguments, Keywords]:
    """The arguments for the Python code that creates the object instead of C code.

    Raises:
        the error of the class itself for them: the Python code would raise it later, or not at all.
    """
    # CPython calls ``iter`` on the arguments when the object is created.
    given = list(arguments)
    for position in range(len(given))[ITERATED.get(cls, slice(0))]:  # the polyfill iterates only later
        argument = realise(tracer, given[position])
        argument.check_iterable(tracer)
        if isinstance(argument, ObjectVariable) and argument.base_items is None:
            iterator = argument.iterate(tracer)
            given[position] = argument if iterator.lacks("__iter__") else iterator
    arguments = given
    if cls in CHECKED:
        _check_numbers(tracer, cls, arguments, keywords)
    if cls in READ_AT_ONCE:
        arguments, keywords = _read_at_once(tracer, cls, arguments, keywords)
    return arguments, keywords


def _class_as_constant(tracer: Tracer, argument: VariableTracker) -> VariableTracker:
    """A class of numbers as a constant: ``np.dtype(np.float32)``."""
    known = realise(tracer, argument)
    return ConstantVariable(known.value) if isinstance(known, ClassVariable) else known


ITERATED: dict[type, slice] = {zip: slice(None), enumerate: slice(1), map: slice(1, None), filter: slice(1, None)}
"""Classes of iterators that call ``iter`` on these arguments when they are created."""


READ_AT_ONCE: dict[type, slice] = {
    itertools.product: slice(None), itertools.combinations: slice(1), itertools.permutations: slice(1),
    itertools.combinations_with_replacement: slice(1),
}  # fmt: skip
"""Classes of iterators that read all items of these arguments when they are created."""


def _read_at_once(
    tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords
) -> tuple[Sequence[VariableTracker], dict[str, VariableTracker]]:
    """The arguments with tuples instead of iterables that are read: a list may change before the first ``next``."""
    read = READ_AT_ONCE[cls]
    whole = [realise(tracer, argument).listed(tracer) for argument in arguments[read]]
    named = dict(keywords)
    if "iterable" in named:
        named["iterable"] = TupleVariable(realise(tracer, named["iterable"]).listed(tracer))
    return [*map(TupleVariable, whole), *arguments[len(whole) :]], named


CHECKED: dict[type, int | None] = {
    enumerate: 1, itertools.islice: 1, itertools.repeat: 1, itertools.count: 0, itertools.combinations: 1,
    itertools.combinations_with_replacement: 1, itertools.permutations: 1, itertools.product: None,
}  # fmt: skip
"""Classes of iterators that check numbers when created: from which position on (None: only keyword arguments)."""


def _check_numbers(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> None:
    """Raise Python's error for a value that cannot be a number of items."""
    before = CHECKED[cls]
    first = len(arguments) if before is None else min(before, len(arguments))
    values = [realise(tracer, each) for each in (*arguments[first:], *keywords.values())]
    found = [(each.specialise(),) if isinstance(each, SymbolicVariable) else whole(tracer, each) for each in values]
    known = [each[0] for each in found if each is not None]
    if len(known) == len(values):
        positional, named = known[: len(arguments) - first], known[len(arguments) - first :]
        tracer.evaluate(cls, ((),) * first + tuple(positional), dict(zip(keywords, named, strict=True)))


def _drop_log_node(tracer: Tracer) -> None:
    # torch creates this one module without running its constructor, so that the graph has no log node of it.
    node = next(each for each in reversed(tracer.output.graph.nodes) if each.target is torch._C._log_api_usage_once)
    tracer.output.erase(node)


def _exception(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = [realise(tracer, each) for each in arguments]
    cls = owner.value
    if issubclass(cls, OSError) and all(each.is_constant() for each in given):
        cls = type(cls(*(each.constant() for each in given)))  # OSError(2, ...) is a FileNotFoundError
    tracer.note_member(owner.source, owner.value, "__new__")
    tracer.note_member(owner.source, owner.value, "__init__")
    new = class_lookup(owner.value, "__new__")
    if isinstance(new, staticmethod):  # a ``__new__`` in Python
        maker = None if owner.source is None else AttrSource(owner.source, "__new__")
        exception = realise(tracer, tracer.call(tracer.wrap(new.__func__, maker), [owner, *arguments], keywords))
        if not (isinstance(exception, ExceptionVariable) and cls in exception.cls.__mro__):
            return exception
    else:
        exception = ExceptionVariable(class_of_group(tracer, cls, given), given)
        if issubclass(cls, BaseExceptionGroup):
            exception.members = tuple(given[1].unpack(tracer))
    init = class_lookup(owner.value, "__init__")
    if isinstance(init, types.FunctionType):
        with_class_source(owner, exception)
        source = None if owner.source is None else ClassMemberSource(owner.source, "__init__")
        tracer.call(tracer.wrap(init, source), [exception, *arguments], keywords)
    else:
        exception.builtin_method(tracer, owner.value, "__init__", arguments, keywords)
    return exception


def _named_tuple(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    cls = owner.value
    new = class_lookup(cls, "__new__")
    # A subclass with a ``__new__`` of its own is an ordinary class; a class by ``namedtuple`` has ``_make``.
    if isinstance(new, (types.FunctionType, staticmethod)) and "_make" not in cls.__dict__:
        return _user_object(tracer, owner, arguments, keywords)
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    defaults = getattr(cls, "_field_defaults", {})
    values = dict(zip(fields, arguments, strict=False))
    unknown = [name for name in keywords if name not in fields]
    values.update(keywords)
    values.update(
        {name: tracer.constant_or_wrap(defaults[name]) for name in fields if name not in values and name in defaults}
    )
    missing = [name for name in fields if name not in values]
    if missing or unknown or len(arguments) > len(fields):
        tracer.evaluate(cls, [None] * len(arguments), dict.fromkeys(keywords))  # raises Python's own TypeError
    return TupleVariable([values[name] for name in fields], cls=cls)


def _user_object(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Create an instance of a user's class as its metaclass does."""
    cls = owner.value
    # A metaclass's ``__call__`` decides how instances are created (singletons, registries): it is traced as written.
    if type(cls).__call__ is not type.__call__ and isinstance(class_lookup(type(cls), "__call__"), types.FunctionType):
        source = None if owner.source is None else AttrSource(TypeSource(owner.source), "__call__")
        return tracer.call(tracer.wrap(class_lookup(type(cls), "__call__"), source), [owner, *arguments], keywords)
    if isinstance(class_lookup(type(cls), "__call__"), type):  # typing.TypedDict's is dict
        return tracer.call(tracer.wrap(class_lookup(type(cls), "__call__"), None), arguments, keywords)
    return make(tracer, owner, arguments, keywords)


def bind(tracer: Tracer, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
    """A class's attribute, bound to an object that is no ObjectVariable (a named tuple)."""
    found, address = class_lookup(cls, name), address_of(cls)
    source = None if address is None else ClassMemberSource(address, name)
    below = None if source is None else AttrSource(source, "fget" if isinstance(found, property) else "__func__")
    match found:
        case _ if isinstance(found, BINDS):
            return MethodVariable(tracer.wrap(found, source), owner)
        case classmethod():
            return MethodVariable(tracer.wrap(found.__func__, below), tracer.wrap(cls, None))
        case staticmethod():
            return tracer.wrap(found.__func__, below)
        case property():
            return tracer.call(tracer.wrap(found.fget, below), [owner])
    return tracer.constant_or_wrap(found) if source is None else tracer.wrap(found, source)


def class_attribute(tracer: Tracer, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
    """``cls.name``."""
    source: Source | None = None if owner.source is None else AttrSource(owner.source, name)
    # The order of ``type.__getattribute__``: a data descriptor of the metaclass, the class's own members, then whatever
    # else the metaclass has.
    if name == "__dict__" and isinstance(owner.source, ConstantSource):
        source = None  # copy.copy reads this view of the class of a created object: it needs no guard
    if name == "__dict__" and source is not None and not rules.is_trusted_module(str(cls.__module__)):
        return ClassDictVariable(cls, source)
    if (of_metaclass := _metaclass_attribute(tracer, owner, cls, name, source)) is not None:
        return of_metaclass
    match found := class_lookup(cls, name):
        case types.FunctionType():
            return tracer.wrap(found, source)
        case staticmethod():
            return tracer.wrap(found.__func__, source)
        case classmethod():
            function = None if source is None else AttrSource(source, "__func__")
            return MethodVariable(tracer.wrap(found.__func__, function), owner)
        case _ if is_class_method_in_c(found):
            member = None if owner.source is None else ClassMemberSource(owner.source, name)
            return MethodVariable(tracer.wrap(found, member), owner)
    value = tracer.evaluate(getattr, (cls, name))
    return ConstantVariable(value, source) if isinstance(value, enum.Enum) else tracer.wrap(value, source)


def _metaclass_attribute(
    tracer: Tracer, owner: VariableTracker, cls: type, name: str, source: Source | None
) -> VariableTracker | None:
    """``cls.name`` by the metaclass: a property of it, or an attribute that the class itself lacks; else None."""
    found_on_meta = class_lookup(type(cls), name)
    on_meta = None if owner.source is None else MethodFunctionSource(owner.source, name)
    if isinstance(found_on_meta, property) and found_on_meta.fget is not None:
        getter = None if on_meta is None else AttrSource(on_meta, "fget")
        return tracer.call(tracer.wrap(found_on_meta.fget, getter), [owner])
    if class_lookup(cls, name) is not MISSING:
        return None
    if isinstance(found_on_meta, types.FunctionType):
        return MethodVariable(tracer.wrap(found_on_meta, on_meta), owner)
    if owner.source is not None and not hasattr(cls, name):
        tracer.guard(owner.source, GuardKind.HASATTR, (name, False))
    return tracer.wrap(tracer.evaluate(getattr, (cls, name)), source)
