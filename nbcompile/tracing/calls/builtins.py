"""Python's built-in functions while tracing.

Answered here where the answer is known (``len``, ``isinstance``, ``getattr``);
what can be said in Python is a polyfill (library.py).

In torch: torch/_dynamo/variables/builtin.py. Read next: torch_functions.py
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Sequence
from typing import Any

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, MethodFunctionSource, Source
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import operations
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.polyfills import builtins as polyfills
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.functions import (
    BaseFunctionVariable,
    BuiltinVariable,
    CachedFunctionVariable,
    MethodVariable,
    OperatorVariable,
    PolyfillVariable,
    SkippedVariable,
)
from nbcompile.tracing.variables.identity import IdVariable
from nbcompile.tracing.variables.iterators import ReversedIteratorVariable, SequenceIteratorVariable
from nbcompile.tracing.variables.mappings import DictVariable, DictViewVariable, SetVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable, sort_items
from nbcompile.tracing.variables.slices import slice_of
from nbcompile.tracing.variables.strings import TextVariable
from nbcompile.tracing.variables.tensor import SymbolicVariable, TensorVariable

CALLABLE_KINDS = (
    BaseFunctionVariable,
    MethodVariable,
    BuiltinVariable,
    PolyfillVariable,
    OperatorVariable,
    SkippedVariable,
    ClassVariable,
    CachedFunctionVariable,
)


@handles(len)
def _len(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, arguments[0]).length(tracer)


@handles(isinstance)
def _isinstance(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    wanted = realise(tracer, arguments[1])
    value = _typed(tracer, arguments[0])
    cls = value.python_type()
    classes = class_values(tracer, wanted)
    if wanted.is_constant() and wanted.constant() not in (None, ()):
        tracer.evaluate(isinstance, (None, wanted.constant()))  # no class: Python's own error
    for candidate in _flat(classes):
        if candidate is cls:  # the class itself: its metaclass is not asked
            return ConstantVariable(True)
        hook = type(candidate).__instancecheck__
        if isinstance(hook, types.FunctionType) and not rules.is_trusted_module(hook.__module__):
            if len(_flat(classes)) > 1:
                raise breaks.unsupported(
                    breaks.BUILTIN_OPERATOR, "isinstance with hooks", name="isinstance", types=value.type_name()
                )
            owner = tracer.wrap(candidate, wanted.source)
            found = tracer.call(MethodVariable(tracer.wrap(hook, _hook_source(wanted)), owner), [value])
            return ConstantVariable(found.truth(tracer))
    _assume_answers(tracer, value, wanted)
    if (
        any(type(each).__instancecheck__ is not type.__instancecheck__ for each in _flat(classes))
        and isinstance(value, ObjectVariable)
        and not value.is_new()
    ):
        return ConstantVariable(tracer.evaluate(isinstance, (value.value, classes)))
    if isinstance(value, TensorVariable):
        return ConstantVariable(_is_tensor_instance(tracer, value, _flat(classes)))
    if issubclass(cls, torch.Tensor) and any(_is_marked(tracer, value, each) for each in _flat(classes)):
        return ConstantVariable(True)
    return ConstantVariable(tracer.evaluate(issubclass, (cls, classes)))


def _assume_answers(tracer: Tracer, value: VariableTracker, wanted: VariableTracker) -> None:
    """Note what each class with an answer of its own says of a value: a registry is nothing that a guard reads."""
    cls, classes = value.python_type(), class_values(tracer, wanted)
    for candidate in _flat(classes):
        if answers_by_itself(candidate) and candidate not in cls.__mro__:
            address = wanted.source if classes is candidate else None
            if isinstance(value, ObjectVariable) and not value.is_new() and value.source is not None:
                tracer.assume_subclass(value.source, address or candidate, isinstance(value.value, candidate))
            else:
                _assume_of_class(tracer, cls, candidate, address)


def _assume_of_class(tracer: Tracer, subject: type, cls: type, address: Source | None) -> None:
    try:
        answer = issubclass(subject, cls)
    except Exception:  # noqa: BLE001 - protocols with attributes refuse; hooks of users raise what they like
        tracer.depend_on_process(f"what {cls.__qualname__} says of a value")
    else:
        tracer.assume_subclass(subject, address or cls, answer)


def answers_by_itself(cls: type) -> bool:
    """True if a class decides what is an instance or a subclass of it by more than the order of bases."""
    metaclass = type(cls)
    own = type.__instancecheck__, type.__subclasscheck__
    return (metaclass.__instancecheck__, metaclass.__subclasscheck__) != own


def _hook_source(cls: VariableTracker) -> Source | None:
    return None if cls.source is None else MethodFunctionSource(cls.source, "__instancecheck__")


def _typed(tracer: Tracer, tracker: VariableTracker) -> VariableTracker:
    """A value of which only the type is asked: for a string or truth value nobody looked at, that is the promise."""
    if isinstance(tracker, LazyVariable) and tracker.realised is None and type(tracker.value) in (str, bool):
        tracer.guard(tracker.source, GuardKind.TYPE_MATCH, type(tracker.value))
        return tracker
    return realise(tracer, tracker)


def _flat(classes: object) -> list[type]:
    if isinstance(classes, tuple):
        return [each for part in classes for each in _flat(part)]
    return [classes] if isinstance(classes, type) else []


MARKS: dict[type, str] = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}
"""Attribute that ``isinstance`` reads of a tensor of another class: ``nn.Parameter(t)`` of a subclass marks t itself.
"""


def _is_marked(tracer: Tracer, value: VariableTracker, cls: type) -> bool:
    """True if a tensor says by an attribute that it is a parameter or a buffer; guarded."""
    mark = MARKS.get(cls)
    if mark is None or issubclass(value.python_type(), cls):
        return False
    if not isinstance(value, UnknownVariable):
        return tracer.has_attribute(value, mark) and realise(tracer, value.get_attribute(tracer, mark)).truth(tracer)
    found = hasattr(value.value, mark)
    if value.source is not None:
        tracer.guard(value.source, GuardKind.HASATTR, (mark, found))
    below = None if value.source is None else AttrSource(value.source, mark)
    return found and tracer.wrap(getattr(value.value, mark), below).truth(tracer)


def _is_tensor_instance(tracer: Tracer, value: TensorVariable, classes: Sequence[type]) -> bool:
    example = value.example
    for cls in classes:
        if cls is torch.nn.Parameter or cls is torch.nn.Buffer:
            if issubclass(value.cls, cls) or _is_marked(tracer, value, cls):
                return True
        elif cls.__module__ == "torch" and cls.__name__.endswith("Tensor") and cls is not torch.Tensor:
            if example.type() == f"torch.{cls.__name__}":
                return True
        elif issubclass(value.cls, cls):
            return True
    return False


def class_values(tracer: Tracer, tracker: VariableTracker) -> object:
    """A class, or a tuple of classes (also ``A | B``), as real classes."""
    tracker = realise(tracer, tracker)
    if isinstance(tracker, (ClassVariable, BuiltinVariable)):
        return tracker.value
    if tracker.is_constant():
        return tracker.constant()
    if isinstance(tracker, (UnknownVariable, ObjectVariable)):
        return tracker.value
    return tuple(class_values(tracer, each) for each in tracker.unpack(tracer))


@handles(issubclass)
def _issubclass(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    subject, wanted = (realise(tracer, each) for each in arguments)
    cls, classes = class_values(tracer, subject), class_values(tracer, wanted)
    answer = tracer.evaluate(issubclass, (cls, classes))
    for candidate in _flat(classes):
        if isinstance(cls, type) and answers_by_itself(candidate) and candidate not in cls.__mro__:
            address = wanted.source if classes is candidate else None
            tracer.assume_subclass(
                subject.source or cls, candidate if address is None else address, issubclass(cls, candidate)
            )
    return ConstantVariable(answer)


@handles(type)
def _type(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if len(arguments) != 1:
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, "type(name, bases, dict)", name="type with three arguments")
    value = _typed(tracer, arguments[0])
    if isinstance(value, (ObjectVariable, ClassVariable)):
        return value.get_attribute(tracer, "__class__")
    return tracer.wrap(value.python_type(), None)


@handles(getattr)
def _getattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name = realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1])
    if len(arguments) == 2:
        return owner.get_attribute(tracer, name)
    try:
        return owner.get_attribute(tracer, name)
    except ObservedException as error:
        if issubclass(error.value.python_type(), AttributeError):
            return realise(tracer, arguments[2])
        raise


@handles(hasattr)
def _hasattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(tracer.has_attribute(realise(tracer, arguments[0]), _attribute_name(tracer, arguments[1])))


def _attribute_name(tracer: Tracer, tracker: VariableTracker) -> str:
    name = realise(tracer, tracker)
    if name.python_type() is int or (name.is_constant() and not isinstance(name.constant(), str)):
        tracer.raise_exception(TypeError, f"attribute name must be string, not '{name.type_name()}'")
    return str(name.constant())


@handles(setattr)
def _setattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name, value = (realise(tracer, each) for each in arguments)
    owner.set_attribute(tracer, str(name.constant()), value)
    return ConstantVariable(None)


@handles(delattr)
def _delattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name = (realise(tracer, each) for each in arguments)
    owner.delete_attribute(tracer, str(name.constant()))
    return ConstantVariable(None)


@handles(callable)
def _callable(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0])
    # On the class itself: hasattr would find the metaclass's, that makes objects.
    has_call = any("__call__" in base.__dict__ for base in value.python_type().__mro__)
    return ConstantVariable(isinstance(value, CALLABLE_KINDS) or has_call)


@handles(id)
def _id(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    tracer.depend_on_process("the id of an object")
    value = realise(tracer, arguments[0])
    if value.source is not None and not isinstance(value, (TensorVariable, ConstantVariable)):
        real = tracer.real_value(value.source)
        tracer.guard(value.source, GuardKind.ID_MATCH, real)
        return ConstantVariable(id(real))
    return IdVariable(value)


@handles(hash)
def _hash(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    tracer.depend_on_process("a hash")  # of texts, it is another one in every process
    value = realise(tracer, arguments[0])
    if isinstance(value, ObjectVariable) and value.has_special(tracer, "__hash__"):
        return tracer.call_special(value, "__hash__", [])
    return ConstantVariable(hash(value.hash_key(tracer)))


@handles(iter)
def _iter(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if len(arguments) == 2:
        return tracer.call_python(polyfills.call_until, *arguments)
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
    cls = value.python_type()
    if not hasattr(cls, "__reversed__") and not (hasattr(cls, "__len__") and hasattr(cls, "__getitem__")):
        tracer.raise_exception(TypeError, f"'{cls.__name__}' object is not reversible")
    return SequenceIteratorVariable(TupleVariable(value.unpack(tracer)[::-1]))


@handles(sorted)
def _sorted(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ListVariable(
        sort_items(tracer, realise(tracer, arguments[0]).listed(tracer), keywords.get("key"), keywords.get("reverse"))
    )


@handles(abs, operator.abs)
def _abs(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return one(tracer, abs, "__abs__", arguments)


@handles(round)
def _round(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value, *digits = (realise(tracer, each) for each in (*arguments, *keywords.values()))
    if isinstance(value, SymbolicVariable) and not (value.python_type() is int and digits):
        return tracer.apply_method("__round__", (value, *digits))
    if isinstance(value, SymbolicVariable):  # torch's symbols take an int for round already
        value = _specialised(value)
    return one(tracer, round, "__round__", [value, *digits])


def one(tracer: Tracer, function: object, method: str, arguments: Arguments) -> VariableTracker:
    """A function of one value with a special method behind it: ``abs``, ``round``, ``math.floor``."""
    value, *rest = (realise(tracer, each) for each in arguments)
    if value.is_constant() and all(each.is_constant() for each in rest):
        return ConstantVariable(tracer.evaluate(function, (value.constant(), *(each.constant() for each in rest))))
    if isinstance(value, TensorVariable) and hasattr(torch.Tensor, method):
        return tracer.apply(operator.abs if function is abs else function, (value, *rest))
    if isinstance(value, SymbolicVariable):
        return tracer.apply(operator.abs if function is abs else function, (value, *rest))
    if isinstance(value, TensorVariable):
        name = method.strip("_")
        raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"{name}({value.describe()})", name=name, types="Tensor")
    return tracer.call_special(value, method, rest)


def extreme(tracer: Tracer, function: object, symbol: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``min`` and ``max``: the first of the smallest (greatest) items."""
    given = arguments if len(arguments) > 1 else realise(tracer, arguments[0]).unpack(tracer)
    items = [realise(tracer, item) for item in given]  # those of an iterator are looked at when they are used
    key, default = keywords.get("key"), keywords.get("default")
    if len(arguments) > 1 and default is not None:
        tracer.evaluate(function, (0, 0), {"default": 0})  # refuses it
    if key is not None and (found := realise(tracer, key)).is_constant() and found.constant() is None:
        key = None
    if not items:
        if default is not None:
            return default
        tracer.evaluate(function, ([],))  # raises; in which words depends on the version
    # Only a strictly better item replaces the best: of equal ones the first stays, as in CPython. The key is called
    # once for each item. Symbols and tensors are not asked for their values: they become nodes, without a guard.
    best = items[0]
    value = best if key is None else tracer.call(key, [best])
    for item in items[1:]:
        other = item if key is None else tracer.call(key, [item])
        symbolic = isinstance(other, SymbolicVariable) or isinstance(value, SymbolicVariable)
        if key is None and symbolic and other.python_type() is value.python_type():
            best = value = tracer.apply(torch.sym_max if symbol == ">" else torch.sym_min, (value, other))
            continue
        if key is None and (isinstance(other, TensorVariable) or isinstance(value, TensorVariable)):
            best = value = _extreme_of_tensors(tracer, symbol, value, other)
            continue
        if operations.compare(tracer, symbol, other, value).truth(tracer):
            best, value = item, other
    return best


def _extreme_of_tensors(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """Maximum or minimum of two tensors with one element each: the value of one of them."""
    for operand in (left, right):
        if isinstance(operand, TensorVariable) and operand.example.numel() != 1:
            operand.truth(tracer)
    if isinstance(left, TensorVariable) and isinstance(right, TensorVariable):
        return tracer.apply(torch.maximum if symbol == ">" else torch.minimum, (left, right))
    tensor, other = (left, right) if isinstance(left, TensorVariable) else (right, left)
    return tracer.apply_method("clamp", (tensor,), {"min" if symbol == ">" else "max": other})


@handles(sum)
def _sum(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    start = arguments[1] if len(arguments) > 1 else keywords.get("start", ConstantVariable(0))
    iterator = realise(tracer, arguments[0]).iterate(tracer)
    if issubclass(first := start.python_type(), (str, bytes, bytearray)):
        tracer.evaluate(sum, ([], first()))  # refuses it
    total: VariableTracker | None = None
    while (item := iterator.next_item(tracer)) is not None:
        addend = realise(tracer, item)  # looked at before the start value, as the iterator is
        total = operations.binary(tracer, "+", realise(tracer, start if total is None else total), addend)
    return realise(tracer, start) if total is None else total


@handles(bool)
def _bool(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments:
        return ConstantVariable(False)
    value = realise(tracer, arguments[0])
    if isinstance(value, TensorVariable):
        return value.call_method(tracer, "__bool__", [], {})
    if isinstance(value, SymbolicVariable):
        return value if value.python_type() is bool else tracer.apply(operator.ne, (value, ConstantVariable(0)))
    return ConstantVariable(value.truth(tracer))


def convert(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``int(x)``, ``float(x)``, ``str(x)``..."""
    values = [realise(tracer, each) for each in (*arguments, *keywords.values())]
    if all(each.is_constant() for each in values):
        plain = [each.constant() for each in values]
        return ConstantVariable(
            tracer.evaluate(cls, plain[: len(arguments)], dict(zip(keywords, plain[len(arguments) :], strict=True)))
        )
    value = values[0]
    method = {int: "__int__", float: "__float__", complex: "__complex__", str: "__str__", bytes: "__bytes__"}[cls]
    if len(values) == 1 and isinstance(value, NdarrayVariable) and cls in (int, float, complex):
        value = value.call_method(tracer, "item", [], {})
    if len(values) == 1 and isinstance(value, TensorVariable) and cls in (int, float, complex):
        number = value.call_method(tracer, method, [], {})
        return number if number.python_type() in (cls, bool) else convert(tracer, cls, [number], {})
    if len(values) == 1 and isinstance(value, SymbolicVariable) and cls in (int, float):
        is_int = cls is int and value.python_type() is int
        return value if is_int else tracer.apply(torch.sym_int if cls is int else torch.sym_float, (value,))
    if any(isinstance(each, SymbolicVariable) and not (cls is str and each.is_read_later()) for each in values):
        known = [_specialised(each) for each in values]
        return convert(tracer, cls, known[: len(arguments)], dict(zip(keywords, known[len(arguments) :], strict=True)))
    if len(values) > 1:
        raise breaks.unsupported(
            breaks.BUILTIN_OPERATOR,
            f"{cls.__name__}(...)",
            name=cls.__name__,
            types=", ".join(each.type_name() for each in values),
        )
    if cls is str:
        return to_text(tracer, value, "")
    if isinstance(value, ObjectVariable):
        for name in (method, "__index__"):
            if value.has_special(tracer, name):
                return tracer.call_special(value, name, [])
    raise breaks.unsupported(
        breaks.BUILTIN_OPERATOR, f"{cls.__name__}({value.describe()})", name=cls.__name__, types=value.type_name()
    )


def _specialised(value: VariableTracker) -> VariableTracker:
    return ConstantVariable(value.specialise()) if isinstance(value, SymbolicVariable) else value


def to_text(tracer: Tracer, value: VariableTracker, conversion: str) -> VariableTracker:
    """``str(value)`` or ``repr(value)`` (conversion ``"r"``) of what is no constant."""
    if isinstance(value, ObjectVariable):
        for name in ("__repr__",) if conversion == "r" else ("__str__", "__repr__"):
            if value.has_special(tracer, name):
                return tracer.call_special(value, name, [])
    if isinstance(value, ClassVariable):
        return ConstantVariable(repr(value.value))
    if isinstance(value, ContainerVariable) and (known := whole(tracer, value)) is not None:
        return ConstantVariable(repr(known[0]))
    if isinstance(value, TensorVariable) or (isinstance(value, SymbolicVariable) and value.is_read_later()):
        return TextVariable("{!r}" if conversion == "r" else "{!s}", [value])
    raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"str({value.describe()})", name="str", types=value.type_name())


def whole(tracer: Tracer, value: VariableTracker) -> tuple[object] | None:
    """The real value of a container of constants (also nested ones), in a tuple; None if something is not known."""
    value = realise(tracer, value)
    if value.is_constant():
        return (value.constant(),)
    if (isinstance(value, ListVariable) and value.cls is list) or isinstance(value, TupleVariable):
        parts = [whole(tracer, each) for each in value.unpack(tracer)]
        items = [part[0] for part in parts if part is not None]
        copy = value.cls(*items) if hasattr(value.cls, "_fields") else value.cls(items)
        return (copy,) if len(items) == len(parts) else None
    if isinstance(value, DequeVariable):
        listed: Any = whole(tracer, ListVariable(value.items))
        return None if listed is None else (collections.deque(listed[0], value.maxlen),)
    if isinstance(value, DictVariable) and value.cls in (dict, collections.OrderedDict):
        pairs = [(key, whole(tracer, value.get_item(tracer, key))) for key in value.keys(tracer)]
        known = {key.constant(): part[0] for key, part in pairs if part is not None and key.is_constant()}
        return (value.cls(known),) if len(known) == len(pairs) else None
    if isinstance(value, DictViewVariable):
        owner = whole(tracer, value.owner)
        return None if owner is None else (getattr(owner[0], value.which)(),)
    if isinstance(value, SetVariable) and value.cls is set and all(each.is_constant() for each in value.unpack(tracer)):
        return ({each.constant() for each in value.unpack(tracer)},)
    return None


@handles(repr)
def _repr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0])
    return ConstantVariable(repr(value.constant())) if value.is_constant() else to_text(tracer, value, "r")


def fold(tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """A pure function of constants, computed now."""
    return tracer.constant_or_wrap(_computed(tracer, function, arguments, keywords)[2])


def _computed(
    tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords
) -> tuple[list[object], dict[str, object], object]:
    """The constants that a function is given, and what it returns."""
    values = [realise(tracer, each) for each in arguments]
    named = {name: realise(tracer, each) for name, each in keywords.items()}
    known = [whole(tracer, each) for each in (*values, *named.values())]
    plain = [each[0] for each in known if each is not None]
    if len(plain) == len(known):
        keyed = dict(zip(named, plain[len(values) :], strict=True))
        return plain[: len(values)], keyed, tracer.evaluate(function, plain[: len(values)], keyed)
    name = getattr(function, "__name__", str(function))
    types = ", ".join(each.type_name() for each in values)
    raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"{name}({types})", name=name, types=types)


def folds(*functions: object) -> None:
    """Register pure functions: called with constants, they are computed while tracing."""
    for function in functions:
        handles(function)(functools.partial(_folded, function))


def _folded(function: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return fold(tracer, function, arguments, keywords)


def folds_of_process(*functions: object) -> None:
    """Register functions that tell of the process: computed while tracing, and asked again by a later process."""
    for function in functions:
        handles(function)(functools.partial(_answered, function))


def _answered(function: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given, named, answer = _computed(tracer, function, arguments, keywords)
    tracer.assume_answer(function, given, named, answer)
    return tracer.constant_or_wrap(answer)


@handles(pow)
def _pow(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return (
        operations.binary(tracer, "**", realise(tracer, arguments[0]), realise(tracer, arguments[1]))
        if len(arguments) == 2 and not keywords
        else fold(tracer, pow, arguments, keywords)
    )


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
    return realise(tracer, arguments[0]).get_attribute(tracer, "__dict__")


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
    """The break of a builtin that looks at its caller's locals: it needs the user's frame, whole."""
    reason = breaks.unsupported(breaks.BUILTIN_OPERATOR, f"builtin {name} of the frame", name=name, types="()")
    reason.needs_frame = True
    return reason


@handles(format)
def _format(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.format_value(
        realise(tracer, arguments[0]), realise(tracer, arguments[1]) if len(arguments) > 1 else ConstantVariable("")
    )


@handles(slice)
def _slice(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return slice_of(tracer, arguments)
