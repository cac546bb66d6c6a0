"""``isinstance`` and ``issubclass`` while tracing, with hooks of metaclasses and abstract base classes.

    isinstance(x, torch.Tensor)   True, with a guard on the type of x

In torch: torch/_dynamo/variables/builtin.py (call_isinstance). Read next: nbcompile/tracing/calls/builtins.py
"""

from __future__ import annotations

import abc
import types
from collections.abc import Iterator, Sequence

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import MethodFunctionSource, Source
from nbcompile.support.real_class import class_is_computed
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import instances
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.polyfills.classes import instance_of, instance_of_abstract
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    is_deferred,
    realise,
)
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.known_callables import BuiltinVariable
from nbcompile.tracing.variables.lookup import MISSING, class_lookup
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.tensor import TensorVariable

NO_CLASS = object()
"""Placeholder for a value that is no class; Python raises the same error for each such value."""


@handles(isinstance)
def _isinstance(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    classinfo = realise(tracer, arguments[1])
    value = typed(tracer, arguments[0])
    cls = value.python_type()
    classes = class_values(tracer, classinfo)
    if classinfo.is_constant() and classinfo.constant() not in (None, ()) and not isinstance(classes, types.UnionType):
        tracer.evaluate(isinstance, (None, classinfo.constant()))  # raises Python's own error: not a class
    candidates = _flat(classes)
    # The order of CPython: the metaclass's ``__instancecheck__`` before the method resolution order.
    if (answer := _metaclass_result(tracer, value, classinfo, candidates)) is not None:
        return ConstantVariable(answer)
    if class_is_computed(cls) or _is_no_class(classinfo):
        parts = classes.__args__ if isinstance(classes, types.UnionType) else candidates
        return ConstantVariable(_is_instance_by_class(tracer, value, classinfo, parts))
    return ConstantVariable(_is_instance_by_type(tracer, value, classinfo, classes))


def _is_instance_by_type(tracer: Tracer, value: VariableTracker, classinfo: VariableTracker, classes: object) -> bool:
    """Result of ``isinstance`` for a value whose ``__class__`` is its type."""
    cls, candidates = value.python_type(), _flat(classes)
    if cls not in candidates and _implements_protocol(tracer, value, classinfo):
        return True
    _assume_subclasses(tracer, value, classinfo)
    if isinstance(value, ObjectVariable):
        classes = _nominal(cls, classes)
        candidates = _flat(classes)
    if (argument := _argument_of_hook(tracer, value, candidates)) is not MISSING:
        return bool(tracer.evaluate(isinstance, (argument, classes)))
    if instances.implements_one(tracer, value, candidates):
        return True
    if isinstance(value, TensorVariable):
        is_instance = instances.is_tensor_instance(tracer, value, candidates)
        return is_instance or _is_of_a_form(tracer, value, _forms(classes))
    if issubclass(cls, torch.Tensor) and any(instances.is_marked(tracer, value, candidate) for candidate in candidates):
        return True
    return any(_is_of_part(tracer, cls, part) for part in _parts(_nominal(cls, classes)))


def _nominal(cls: type, classes: object) -> object:
    """The classes without the protocols, which were evaluated for a value of class ``cls``."""
    if not any(map(instances.is_protocol, _checked_classes(classes))):
        return classes
    return tuple(part for part in _parts(classes) if not isinstance(part, type) or instances.is_nominal(cls, part))


def _is_of_part(tracer: Tracer, cls: type, part: object) -> bool:
    """Result of ``isinstance`` for one class, or for another value in its position."""
    is_class = isinstance(part, type) or class_lookup(type(part), "__subclasscheck__") is not MISSING
    if not is_class or isinstance(part, types.GenericAlias):
        tracer.evaluate(isinstance, (None, part))  # Python's own error
    return bool(tracer.evaluate(issubclass, (cls, part)))


def _is_instance_by_class(
    tracer: Tracer, value: VariableTracker, classinfo: VariableTracker, candidates: Sequence[type]
) -> bool:
    """Result of ``isinstance`` for an object whose ``__class__`` is read: a mock object, a proxy."""
    known = all(hook in (type.__instancecheck__, abc.ABCMeta.__instancecheck__) for hook in map(_check_of, candidates))
    if not known or not isinstance(value, ObjectVariable) or _is_no_class(classinfo):
        raise breaks.unsupported(
            breaks.BUILTIN_OPERATOR, "isinstance with __class__", name="isinstance", types=value.type_name()
        )
    cls = value.own_class(tracer)
    for candidate in candidates:
        if candidate is value.cls:
            return True
        check = instance_of if _check_of(candidate) is type.__instancecheck__ else instance_of_abstract
        if realise(tracer, tracer.call_python(check, value, cls, tracer.wrap(candidate, None))).truth(tracer):
            return True
    return False


def _check_of(cls: type) -> object:
    return type(cls).__instancecheck__


def _is_no_class(classinfo: VariableTracker) -> bool:
    """True if an object with ``__bases__`` may count as a class, or a tuple contains one."""
    if isinstance(classinfo, TupleVariable):
        return any(map(_is_no_class, classinfo.items))
    return isinstance(classinfo, ObjectVariable)


def _argument_of_hook(tracer: Tracer, value: VariableTracker, candidates: Sequence[type]) -> object:
    """The object that an ``__instancecheck__`` may be called with: the value or one like it; else ``MISSING``."""
    if all(type(candidate).__instancecheck__ is type.__instancecheck__ for candidate in candidates):
        return MISSING
    if isinstance(value, ObjectVariable) and not instances.is_changed(tracer, value):
        return value.value
    return instances.sample(value)


def _metaclass_result(
    tracer: Tracer, value: VariableTracker, classinfo: VariableTracker, classes: Sequence[type]
) -> bool | None:
    """Trace ``__instancecheck__`` of a user's metaclass and return its result; None if no class has one."""
    for candidate in classes:
        if isinstance(candidate, types.GenericAlias):
            break
        if candidate is value.python_type():  # the class itself: its metaclass is not called
            return None if class_is_computed(candidate) else True
        hook = type(candidate).__instancecheck__
        if isinstance(hook, types.FunctionType) and not rules.is_trusted_module(hook.__module__):
            if len(classes) > 1:
                raise breaks.unsupported(
                    breaks.BUILTIN_OPERATOR, "isinstance with hooks", name="isinstance", types=value.type_name()
                )
            owner = tracer.wrap(candidate, classinfo.source)
            found = tracer.call(MethodVariable(tracer.wrap(hook, _hook_source(classinfo)), owner), [value])
            return found.truth(tracer)
    return None


def _implements_protocol(tracer: Tracer, value: VariableTracker, classinfo: VariableTracker) -> bool:
    """Evaluate the protocols among the classes for an object, with guards on the attributes: they use no registry."""
    if not isinstance(value, ObjectVariable):
        return False
    classes = class_values(tracer, classinfo)
    for candidate in _parts(classes):
        if isinstance(candidate, types.GenericAlias):
            break  # rejected below
        if not isinstance(candidate, type) or not instances.is_protocol(candidate):
            continue
        address = classinfo.source if classes is candidate else None
        # As in typing: the class first, whose result ABCMeta caches, and then the object.
        answer = candidate in value.cls.__mro__ or _class_implements(tracer, value.cls, candidate, address)
        answer = answer or instances.implements(tracer, value, candidate)
        if value.source is not None and not instances.is_changed(tracer, value):
            tracer.assume_subclass(value.source, address or candidate, answer)
        if answer:
            return True
    return False


def _class_implements(tracer: Tracer, cls: type, protocol: type, address: Source | None) -> bool:
    has_methods_only = instances.has_methods_only(protocol)
    answer = (has_methods_only or instances.IS_STATIC) and instances.protocol_accepts(tracer, cls, protocol)
    if has_methods_only:
        _assume_of_class(tracer, cls, protocol, address)
    return answer


def _assume_subclasses(tracer: Tracer, value: VariableTracker, classinfo: VariableTracker) -> None:
    """Record the result of each class with a check of its own, since no guard reads a registry."""
    cls, classes = value.python_type(), class_values(tracer, classinfo)
    # Abstract classes and protocols: their result depends on registrations. It is an assumption of the trace, which
    # the disk cache checks again.
    for candidate in _checked_classes(classes):
        if has_own_check(candidate) and candidate not in cls.__mro__:
            if isinstance(value, ObjectVariable) and instances.is_protocol(candidate):
                continue  # evaluated already
            address = classinfo.source if classes is candidate else None
            if isinstance(value, ObjectVariable) and not value.is_new() and value.source is not None:
                answer = bool(tracer.evaluate(isinstance, (value.value, candidate)))  # it may be an error
                tracer.assume_subclass(value.source, address or candidate, answer)
            else:
                _assume_of_class(tracer, cls, candidate, address)


def _assume_of_class(tracer: Tracer, subject: type, cls: type, address: Source | None) -> None:
    try:
        answer = issubclass(subject, cls)
    except Exception:  # noqa: BLE001
        tracer.depend_on_process(f"the instance check of {cls.__qualname__}")
    else:
        tracer.assume_subclass(subject, address or cls, answer)


def has_own_check(cls: type) -> bool:
    """True if the instance check or subclass check of a class uses more than the method resolution order."""
    metaclass = type(cls)
    own = type.__instancecheck__, type.__subclasscheck__
    return (metaclass.__instancecheck__, metaclass.__subclasscheck__) != own


def _hook_source(cls: VariableTracker) -> Source | None:
    return None if cls.source is None else MethodFunctionSource(cls.source, "__instancecheck__")


def typed(tracer: Tracer, tracker: VariableTracker) -> VariableTracker:
    """A value of which only the type is read: a lazy string or truth value is guarded only by its type."""
    if is_deferred(tracker):
        return tracker
    if isinstance(tracker, LazyVariable) and tracker.realised is None and type(tracker.value) in (str, bool):
        if tracker.source is not None:  # a text that the traced code creates has none
            tracer.guard(tracker.source, GuardKind.TYPE_MATCH, type(tracker.value))
        return tracker
    return realise(tracer, tracker)


def _flat(classes: object) -> list[type]:
    if isinstance(classes, tuple):
        return [each for part in classes for each in _flat(part)]
    if isinstance(classes, types.GenericAlias):  # list[int]: kept, to be rejected
        return [classes]  # type: ignore[list-item]
    return [classes] if isinstance(classes, type) else []


def _parts(classes: object) -> Iterator[object]:
    """Classes, and other values in their positions, in order."""
    if isinstance(classes, (tuple, types.UnionType)):
        for part in classes if isinstance(classes, tuple) else classes.__args__:
            yield from _parts(part)
    else:
        yield classes


def _checked_classes(classes: object) -> list[type]:
    """The classes among the values, including those of a union."""
    return [part for part in _parts(classes) if isinstance(part, type) and not isinstance(part, types.GenericAlias)]


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
    if isinstance(tracker, TupleVariable):
        return tuple(class_values(tracer, each) for each in tracker.unpack(tracer))
    return NO_CLASS


@handles(issubclass)
def _issubclass(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    subject, classinfo = (realise(tracer, each) for each in arguments)
    if isinstance(subject, ObjectVariable) or _is_no_class(classinfo):
        raise breaks.unsupported(
            breaks.BUILTIN_OPERATOR, "issubclass of an object", name="issubclass", types=subject.type_name()
        )
    cls, classes = class_values(tracer, subject), class_values(tracer, classinfo)
    answer = tracer.evaluate(issubclass, (cls, classes))
    for candidate in _checked_classes(classes):
        if isinstance(cls, type) and has_own_check(candidate) and candidate not in cls.__mro__:
            address = classinfo.source if classes is candidate else None
            tracer.assume_subclass(
                subject.source or cls, candidate if address is None else address, issubclass(cls, candidate)
            )
    return ConstantVariable(answer)
