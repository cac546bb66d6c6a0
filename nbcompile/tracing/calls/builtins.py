"""Python's built-in functions while tracing.

This module has those with a result that tracing knows (``len``, ``isinstance``, ``getattr``);
those that can be written in Python have polyfills (library.py). Conversions, ``min`` and ``max``, ``sum``, and
constant folding are in conversions.py, extremes.py, totals.py and folding.py.

In torch: torch/_dynamo/variables/builtin.py. Read next: torch_functions.py
"""

from __future__ import annotations

import operator
import types

from nbcompile.capture.guard import GuardKind
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.instance_checks import typed
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.polyfills import builtins as polyfills, operators
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import special_results
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.caches import CachedFunctionVariable, CacheVariable, CreatedCacheVariable
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable
from nbcompile.tracing.variables.exceptions import look_up
from nbcompile.tracing.variables.functions import BaseFunctionVariable, MethodVariable
from nbcompile.tracing.variables.identity import HashVariable, IdVariable, is_hash_of_value
from nbcompile.tracing.variables.iterators import (
    ReversedIteratorVariable,
    SequenceIteratorVariable,
    TextIteratorVariable,
)
from nbcompile.tracing.variables.known_callables import (
    BuiltinVariable,
    OperatorVariable,
    PolyfillVariable,
    SkippedVariable,
)
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.ranges import RangeIteratorVariable, RangeVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.slices import slice_of
from nbcompile.tracing.variables.sorting import sort_items
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.weak_reference import WeakReferenceVariable

CALLABLE_KINDS = (
    BaseFunctionVariable,
    MethodVariable,
    BuiltinVariable,
    PolyfillVariable,
    OperatorVariable,
    SkippedVariable,
    ClassVariable,
    CachedFunctionVariable,
    CacheVariable,
    CreatedCacheVariable,
)


@handles(len)
def _len(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, arguments[0]).length(tracer)


@handles(operator.length_hint)
def _length_hint(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, default = realise(tracer, arguments[0]), tracer.call_python(operators.default_hint, *arguments[1:])
    if owner.lacks("__len__", "__length_hint__"):
        return default
    if isinstance(owner, RangeIteratorVariable):
        return ConstantVariable(tracer.evaluate(operator.length_hint, (iter(owner.left()),)))
    if isinstance(owner, SequenceIteratorVariable):
        return ConstantVariable(len(owner.rest(tracer)))
    if not owner.lacks("__len__"):
        try:
            return tracer.call(tracer.wrap(len, None), [owner])
        except ObservedException as error:  # a length that is no number counts as none
            if not issubclass(error.value.python_type(), TypeError):
                raise
    if isinstance(owner, ObjectVariable) and owner.has_special(tracer, "__length_hint__"):
        hint = realise(tracer, tracer.call_special(owner, "__length_hint__", []))
        if hint.is_constant() and hint.constant() is NotImplemented:
            return default
        return special_results.checked(tracer, "__length_hint__", hint, owner)
    if owner.lacks("__length_hint__"):
        return default
    raise breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"length_hint({owner.describe()})", name="length_hint", types=owner.type_name()
    )


@handles(type)
def _type(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if len(arguments) != 1:
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, "type(name, bases, dict)", name="type with three arguments")
    value = typed(tracer, arguments[0])
    if isinstance(value, ObjectVariable):
        return value.own_class(tracer)
    if isinstance(value, ClassVariable):
        return value.get_attribute(tracer, "__class__")
    return tracer.wrap(value.python_type(), None)


@handles(getattr)
def _getattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name = realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1])
    if len(arguments) == 2:
        return look_up(tracer, owner, name)
    try:
        return owner.get_attribute(tracer, name)
    # The default hides only AttributeError.
    except ObservedException as error:
        if issubclass(error.value.python_type(), AttributeError):
            return realise(tracer, arguments[2])
        raise


@handles(hasattr)
def _hasattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(tracer.has_attribute(realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1])))


def _attribute_name(tracer: Tracer, tracker: VariableTracker) -> str:
    name = realise(tracer, tracker)
    if not issubclass(name.python_type(), str):
        tracer.raise_exception(TypeError, f"attribute name must be string, not '{name.type_name()}'")
    return str(name.constant())


@handles(setattr)
def _setattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name, value = realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1]), arguments[2]
    owner.set_attribute(tracer, name, realise(tracer, value))
    return ConstantVariable(None)


@handles(delattr)
def _delattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name = realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1])
    owner.delete_attribute(tracer, name)
    return ConstantVariable(None)


@handles(callable)
def _callable(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0])
    # On the class itself: hasattr would find the metaclass's ``__call__``, which creates objects.
    has_call = any("__call__" in base.__dict__ for base in value.python_type().__mro__)
    return ConstantVariable(isinstance(value, CALLABLE_KINDS) or has_call)


@handles(id)
def _id(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # Addresses differ from process to process, so a trace that used one cannot be stored.
    tracer.depend_on_process("the id of an object")
    # The id of an object from outside is a number that programs compare and use as a key: the object is guarded.
    value = realise(tracer, arguments[0])
    if value.source is not None and not isinstance(value, (TensorVariable, ConstantVariable)):
        real = tracer.real_value(value.source)
        tracer.guard(value.source, GuardKind.ID_MATCH, real)
        return ConstantVariable(id(real))
    return IdVariable(value)


@handles(hash)
def _hash(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    tracer.depend_on_process("a hash")  # the hash of a string differs in every process
    value = realise(tracer, arguments[0])
    while isinstance(value, WeakReferenceVariable):  # its hash is that of its referent
        value = realise(tracer, value.referent)
    if isinstance(value, ObjectVariable) and value.has_special(tracer, "__hash__"):
        found = realise(tracer, tracer.call_special(value, "__hash__", []))
        return special_results.checked(tracer, "__hash__", found, value) if found.is_constant() else found
    key = value.hash_key(tracer)
    return ConstantVariable(hash(key)) if is_hash_of_value(key, value) else HashVariable(hash, value, key)


@handles(iter)
def _iter(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if len(arguments) == 2:
        return tracer.call_python(polyfills.until, *arguments)
    return realise(tracer, arguments[0]).iterate(tracer)


@handles(next)
def _next(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    iterator = realise(tracer, arguments[0])
    item = iterator.next_item(tracer)
    if item is None:
        if len(arguments) == 2:
            return arguments[1]
        tracer.stop(iterator)
    return realise(tracer, item)


@handles(reversed)
def _reversed(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0])
    if isinstance(value, ObjectVariable) and value.has_special(tracer, "__reversed__"):
        return tracer.call_special(value, "__reversed__", [])
    if isinstance(value, SequenceVariable) and value.cls in (list, tuple):
        return ReversedIteratorVariable(value)
    if isinstance(value, (DictVariable, DictViewVariable, DequeVariable)):
        return value.backwards(tracer)
    if isinstance(value, RangeVariable):
        return RangeIteratorVariable(value.value[::-1])
    if isinstance(value, ConstantVariable) and isinstance(value.value, (str, bytes)):
        return TextIteratorVariable(TupleVariable(value.unpack(tracer)[::-1]), value.value, reversed)
    return _reversed_by_index(tracer, value)


def _reversed_by_index(tracer: Tracer, value: VariableTracker) -> VariableTracker:
    """``reversed`` of a sequence without ``__reversed__``: ``__len__`` and ``__getitem__`` with numbers are enough."""
    cls = value.python_type()
    if class_lookup(cls, "__reversed__") is None:
        tracer.raise_exception(TypeError, f"'{value.error_name()}' object is not reversible")
    if not hasattr(cls, "__reversed__") and not (hasattr(cls, "__len__") and hasattr(cls, "__getitem__")):
        message = "object of type '{}' has no len()" if hasattr(cls, "__getitem__") else "'{}' object is not reversible"
        tracer.raise_exception(TypeError, message.format(value.error_name()))
    if isinstance(value, ObjectVariable) and _has_own_items(cls):
        return tracer.call_python(polyfills.reversed_by_index, value, value.length(tracer))
    return SequenceIteratorVariable(TupleVariable(value.unpack(tracer)[::-1]))


def _has_own_items(cls: type) -> bool:
    """Return whether ``cls[i]`` may be another item than the one at position i of an iteration."""
    methods = [class_lookup(cls, name) for name in ("__getitem__", "__len__")]
    return any(
        isinstance(method, types.FunctionType) and method.__module__ != "torch.nn.modules.container"
        for method in methods
    )


@handles(sorted)
def _sorted(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    items = [realise(tracer, item) for item in realise(tracer, arguments[0]).listed(tracer)]
    sort_items(tracer, items, keywords.get("key"), keywords.get("reverse"))
    return ListVariable(items)


@handles(print)
def _print(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    types = ", ".join(repr(each.type_name()) for each in arguments)
    raise breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"builtin print [{types}] {bool(keywords)}", name="print", types=f"[{types}]"
    )


@handles(vars)
def _vars(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments:
        return _locals(tracer, arguments, keywords)
    value = realise(tracer, arguments[0])
    if len(arguments) > 1 or keywords or not tracer.has_attribute(value, "__dict__"):
        tracer.evaluate(vars, [()] * len(arguments), dict.fromkeys(keywords))  # raises Python's error
    return value.get_attribute(tracer, "__dict__")


@handles(locals)
def _locals(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.local_variables()


@handles(eval)
def _eval(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise of_the_frame(tracer, "eval")


@handles(exec)
def _exec(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise of_the_frame(tracer, "exec")


@handles(dir)
def _dir(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments:
        return tracer.call(tracer.wrap(sorted, None), [tracer.local_variables()])
    types = realise(tracer, arguments[0]).type_name()
    raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"builtin dir [{types}]", name="dir", types=types)


def of_the_frame(tracer: Tracer, name: str) -> breaks.Unsupported:
    """The break of a builtin that reads its caller's locals: it needs the user's whole frame."""
    reason = breaks.unsupported(breaks.BUILTIN_OPERATOR, f"builtin {name} of the frame", name=name, types="()")
    reason.needs_frame = True
    return reason


@handles(slice)
def _slice(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if keywords or not 1 <= len(arguments) <= 3:
        tracer.evaluate(slice, arguments, keywords)  # raises Python's error
    return slice_of(tracer, arguments)
