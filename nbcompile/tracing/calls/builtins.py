"""Python's built-in functions while tracing.

Answered here where the answer is known (``len``, ``isinstance``, ``getattr``);
what can be said in Python is a polyfill (library.py). Conversions, ``min`` and ``max``, and what is computed while
tracing are in conversions.py, extremes.py and folding.py.

In torch: torch/_dynamo/variables/builtin.py. Read next: torch_functions.py
"""

from __future__ import annotations

import types
from collections.abc import Sequence

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import MethodFunctionSource, Source
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import instances
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
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.exceptions import look_up
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
from nbcompile.tracing.variables.iterators import (
    ReversedIteratorVariable,
    SequenceIteratorVariable,
    TextIteratorVariable,
)
from nbcompile.tracing.variables.lookup import MISSING
from nbcompile.tracing.variables.mappings import DictVariable, DictViewVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.ranges import RangeIteratorVariable, RangeVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable, sort_items
from nbcompile.tracing.variables.slices import slice_of
from nbcompile.tracing.variables.tensor import TensorVariable

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
    candidates = _flat(classes)
    # The order of CPython: the metaclass's ``__instancecheck__`` before the method resolution order.
    if (answer := _metaclass_answer(tracer, value, wanted, candidates)) is not None:
        return ConstantVariable(answer)
    _assume_answers(tracer, value, wanted)
    if (asked := _asked_by_hook(tracer, value, candidates)) is not MISSING:
        return ConstantVariable(tracer.evaluate(isinstance, (asked, classes)))
    if instances.meets_one(tracer, value, candidates):
        return ConstantVariable(True)
    if isinstance(value, TensorVariable):
        is_instance = instances.is_tensor_instance(tracer, value, candidates)
        return ConstantVariable(is_instance or _is_of_a_form(tracer, value, _forms(classes)))
    if issubclass(cls, torch.Tensor) and any(instances.is_marked(tracer, value, candidate) for candidate in candidates):
        return ConstantVariable(True)
    if any(map(instances.is_protocol, candidates)):
        classes = tuple(candidate for candidate in candidates if instances.is_nominal(cls, candidate))
    return ConstantVariable(tracer.evaluate(issubclass, (cls, classes)))


def _asked_by_hook(tracer: Tracer, value: VariableTracker, candidates: Sequence[type]) -> object:
    """The object that an ``__instancecheck__`` may be called with: the value or one like it; else ``MISSING``."""
    if all(type(candidate).__instancecheck__ is type.__instancecheck__ for candidate in candidates):
        return MISSING
    if isinstance(value, ObjectVariable) and not instances.is_changed(tracer, value):
        return value.value
    return instances.sample(value)


def _metaclass_answer(
    tracer: Tracer, value: VariableTracker, wanted: VariableTracker, classes: Sequence[type]
) -> bool | None:
    """Trace ``__instancecheck__`` of a user's metaclass and return its answer; None if no class has one."""
    for candidate in classes:
        if isinstance(candidate, types.GenericAlias):
            break
        if candidate is value.python_type():  # the class itself: its metaclass is not asked
            return True
        hook = type(candidate).__instancecheck__
        if isinstance(hook, types.FunctionType) and not rules.is_trusted_module(hook.__module__):
            if len(classes) > 1:
                raise breaks.unsupported(
                    breaks.BUILTIN_OPERATOR, "isinstance with hooks", name="isinstance", types=value.type_name()
                )
            owner = tracer.wrap(candidate, wanted.source)
            found = tracer.call(MethodVariable(tracer.wrap(hook, _hook_source(wanted)), owner), [value])
            return found.truth(tracer)
    return None


def _assume_answers(tracer: Tracer, value: VariableTracker, wanted: VariableTracker) -> None:
    """Note what each class with an answer of its own says of a value: a registry is nothing that a guard reads."""
    cls, classes = value.python_type(), class_values(tracer, wanted)
    # Abstract classes and protocols: their answer depends on registrations, which no guard reads. The process remembers
    # them for itself, and the disk cache asks again.
    for candidate in _flat(classes):
        if answers_by_itself(candidate) and candidate not in cls.__mro__:
            address = wanted.source if classes is candidate else None
            if isinstance(value, ObjectVariable) and not value.is_new() and value.source is not None:
                answer = bool(tracer.evaluate(isinstance, (value.value, candidate)))  # it may be an error
                tracer.assume_subclass(value.source, address or candidate, answer)
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
    if isinstance(classes, types.GenericAlias):  # list[int]: in its place, to be refused
        return [classes]  # type: ignore[list-item]
    return [classes] if isinstance(classes, type) else []


def _forms(classes: object) -> tuple[object, ...]:
    """Arguments that are no classes, but represent one: ``typing.Sized``."""
    if isinstance(classes, tuple):
        return tuple(form for part in classes for form in _forms(part))
    return () if isinstance(classes, type) else (classes,)


def _is_of_a_form(tracer: Tracer, value: VariableTracker, forms: tuple[object, ...]) -> bool:
    tracer.evaluate(isinstance, (None, forms))  # Python's own error: list[int]
    return bool(tracer.evaluate(issubclass, (value.python_type(), forms)))


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
        return look_up(tracer, owner, name)
    try:
        return owner.get_attribute(tracer, name)
    # The default hides AttributeError alone.
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
    # On the class itself: hasattr would find the metaclass's, that makes objects.
    has_call = any("__call__" in base.__dict__ for base in value.python_type().__mro__)
    return ConstantVariable(isinstance(value, CALLABLE_KINDS) or has_call)


@handles(id)
def _id(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # Addresses differ from process to process, so nothing that used one can be stored.
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
    tracer.depend_on_process("a hash")  # of texts, it is another one in every process
    value = realise(tracer, arguments[0])
    if isinstance(value, ObjectVariable) and value.has_special(tracer, "__hash__"):
        return tracer.call_special(value, "__hash__", [])
    return ConstantVariable(hash(value.hash_key(tracer)))


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
    # The protocol of sequences: ``__len__`` and ``__getitem__`` with numbers are enough.
    cls = value.python_type()
    if not hasattr(cls, "__reversed__") and not (hasattr(cls, "__len__") and hasattr(cls, "__getitem__")):
        tracer.raise_exception(TypeError, f"'{cls.__name__}' object is not reversible")
    return SequenceIteratorVariable(TupleVariable(value.unpack(tracer)[::-1]))


@handles(sorted)
def _sorted(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    items = realise(tracer, arguments[0]).listed(tracer)
    return ListVariable(sort_items(tracer, items, keywords.get("key"), keywords.get("reverse")))


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
        tracer.evaluate(vars, [()] * len(arguments), dict.fromkeys(keywords))  # says what it takes
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
    """The break of a builtin that looks at its caller's locals: it needs the user's frame, whole."""
    reason = breaks.unsupported(breaks.BUILTIN_OPERATOR, f"builtin {name} of the frame", name=name, types="()")
    reason.needs_frame = True
    return reason


@handles(slice)
def _slice(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if keywords or not 1 <= len(arguments) <= 3:
        tracer.evaluate(slice, arguments, keywords)  # says what it takes
    return slice_of(tracer, arguments)
