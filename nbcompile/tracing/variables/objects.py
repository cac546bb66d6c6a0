"""Objects of user-defined classes: attribute look-up and special methods, as in Python's data model.

Attribute look-up follows ``object.__getattribute__``: data descriptors of the
class, the instance's dict, the rest of the class, ``__getattr__``. The attribute
that is found is guarded at its own source; a value that the traced code stored
takes precedence.

    account.rate       L['account'].rate
    account.rate = 2   recorded in side_effects, replayed after the graph

In torch: torch/_dynamo/variables/user_defined.py. Read next: nn_module.py
"""

from __future__ import annotations

import collections
import threading
import types
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Build, Call, Constant, FromSource, Recipe
from nbcompile.capture.source import (
    AttrSource,
    ClassMemberSource,
    GenericAttrSource,
    MethodFunctionSource,
    Source,
    TypeSource,
)
from nbcompile.support.real_class import class_is_computed
from nbcompile.tracing import breaks
from nbcompile.tracing.polyfills import namespaces, ordered
from nbcompile.tracing.polyfills.operators import copied_deque, joined_deque, repeated_deque
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables import special_results
from nbcompile.tracing.variables.base import (
    TYPE_ERRORS,
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.class_change import expect_class, is_class_slot
from nbcompile.tracing.variables.class_facts import NO_CONSTANT, constant_in_c, has_class_members_only, is_fixed
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable, ContainerVariable
from nbcompile.tracing.variables.deques import DequeVariable, empty_deque
from nbcompile.tracing.variables.functions import FunctionVariable, MethodVariable
from nbcompile.tracing.variables.identity import HashVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable, dict_view_of
from nbcompile.tracing.variables.keys import TracedKey
from nbcompile.tracing.variables.known_callables import PolyfillVariable
from nbcompile.tracing.variables.lookup import (
    BINDS,
    INSTANCE_METHOD,
    MISSING,
    PLAIN_SETTERS,
    accessor_in_c,
    address_of,
    class_lookup,
    class_overlay,
    has_dict,
    instance_dict,
    is_class_method_in_c,
    is_data_descriptor,
    keeps_dict_elsewhere,
)
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.representations import representation
from nbcompile.tracing.variables.sequences import TupleVariable

DEQUE_COPIES: dict[str, Callable[..., object]] = {
    "copy": copied_deque, "__copy__": copied_deque, "__add__": joined_deque,
    "__mul__": repeated_deque, "__rmul__": repeated_deque,
}  # fmt: skip
"""Methods of deques whose result is of the object's own class."""
IN_PLACE = ("__iadd__", "__imul__", "__ior__", "__iand__", "__ixor__", "__isub__")
OF_NONE = {"__contains__": "'{}' object is not a container", "__iter__": TYPE_ERRORS["__iter__"]}
"""Python's messages for a special method that is None; it calls the others."""
METHODS_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)


class ObjectVariable(VariableTracker):
    """An object of a user's class: from outside (``value``) or created by the traced code."""

    has_fixed_class = False
    """True if the tracker is for objects of certain classes only."""

    def __init__(self, cls: type, value: object = MISSING, source: Source | None = None) -> None:
        self.cls = cls
        self.value = value
        self.source = source
        self.class_source = TypeSource(source) if source is not None else address_of(cls)
        """Source of the class; for a new object, that of the class that was called."""
        self.base_items: VariableTracker | None = None
        """Tracker of the built-in part of a subclass of list, dict, tuple ..."""
        self.has_new_class = False
        """True once the traced code assigned to ``__class__``: the class at ``source`` is another one."""
        self.seen: dict[str, VariableTracker] = {}
        """Trackers of the attributes that were read; the value of an unused one is not guarded."""

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"UserDefinedObjectVariable({self.cls.__name__})"

    def is_new(self) -> bool:
        """True if the traced code created it."""
        return self.value is MISSING

    def is_created_here(self) -> bool:
        return self.is_new()

    def hash_key(self, tracer: Tracer) -> Hashable:
        # Hashed by identity: no code of the program runs.
        if getattr(self.cls, "__hash__", None) in (object.__hash__, torch.nn.Module.__hash__):
            if self.is_new():
                return ("object", id(self))
            tracer.side_effects.keep_distinct(self.value, self)
            return ("object", id(self.value))
        if self.base_items is not None and self.is_built_in("__hash__"):  # list, dict, tuple... by value, or unhashable
            return self.base_items.hash_key(tracer)
        # A ``__hash__`` of the program: it is traced when a dict looks up the key.
        if isinstance(class_lookup(self.cls, "__hash__"), types.FunctionType):
            return TracedKey(tracer, self)
        if not self.is_new() and self.source is not None and self.cls.__hash__ is not None:
            return self.value
        return super().hash_key(tracer)

    # -- attributes ----------------------------------------------------------------------

    def on_class(self, tracer: Tracer, name: str) -> object:
        """Entry of the class under a name, unbound, or MISSING; notes a guard on it, or on its absence."""
        of_class = self.source is None or self.has_new_class
        tracer.note_member(self.class_source if of_class else self.source, self.cls, name)
        return class_lookup(self.cls, name)

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__" and not class_is_computed(self.cls):
            return self.own_class(tracer)
        custom = self.on_class(tracer, "__getattribute__")
        try:
            if custom is not object.__getattribute__ and isinstance(custom, types.FunctionType):
                getter = tracer.wrap(custom, self._class_source("__getattribute__"))
                return tracer.call(getter, [self, ConstantVariable(name)])
            found = self.generic_attribute(tracer, name)
        except ObservedException as error:  # also raised by a property
            if not self._has_getattr() or not issubclass(error.value.python_type(), AttributeError):
                raise
            found = None
        return self._fallback(tracer, name) if found is None else found

    def generic_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """``object.__getattribute__``; None where it raises AttributeError because no attribute is found."""
        # The steps of ``object.__getattribute__``, whose order decides which attribute hides another one:
        #     1. a data descriptor of the class (property, slot)      hides the instance's dict
        #     2. the instance's dict                                  hides methods and class variables
        #     3. anything else of the class (methods, class variables)
        found = self.on_class(tracer, name)
        if is_class_slot(found):
            return self.own_class(tracer)
        if found is not MISSING and is_data_descriptor(found):
            return self._descriptor(tracer, name, found)
        own = self._instance_attribute(tracer, name)
        if own is not None:
            return own
        changed = class_overlay(tracer, self.cls, name)
        if changed is not None or found is not MISSING:
            # Step 3 was reached because the instance has no such entry, which is guarded: otherwise a later
            # ``obj.method = f`` would have no effect.
            self._not_shadowed(tracer, name)
        if changed is not None:
            return MethodVariable(changed, self) if changed.python_type() in BINDS else changed
        if found is not MISSING:
            return self._class_value(tracer, name, found)
        return None

    def static_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """Entry of the instance or of its class, unbound, as ``inspect.getattr_static`` finds it; None if it does not.

        Neither a property nor ``__getattr__`` runs, and a slot counts without a value.
        """
        found = self.on_class(tracer, name)
        if found is not MISSING and is_data_descriptor(found):
            return UnknownVariable(found, None)
        own = self._instance_attribute(tracer, name)
        if own is not None:
            return own
        self._not_shadowed(tracer, name)
        changed = class_overlay(tracer, self.cls, name)
        if changed is not None:
            return changed
        if found is MISSING:
            self._not_in_class(tracer, name)
            return None
        return ConstantVariable(None) if found is None else UnknownVariable(found, None)

    def _instance_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if name == "__dict__" and not has_class_members_only(self.cls):  # objects with ``__slots__`` have only those
            return self._dict(tracer)
        if self.is_new() or tracer.side_effects.is_deleted(self, name):
            return None
        members = instance_dict(self.value)
        return self._lazy(tracer, name, members[name]) if name in members else None

    def _lazy(self, tracer: Tracer, name: str, value: object) -> VariableTracker:
        """A lazy attribute, which is guarded when it is used: the same tracker each time."""
        # One tracker for each attribute and all its reads: a list that is read twice is one list, also after a change.
        if self.source is None:
            return tracer.wrap(value, None)
        tracker = self.seen.setdefault(name, LazyVariable(value, self._own_source(self.source, name)))
        tracer.output.left_unread.append(tracker)
        return tracker

    def _own_source(self, source: Source, name: str) -> Source:
        past = self._has_getattribute() and not keeps_dict_elsewhere(self.cls)
        return GenericAttrSource(source, name) if past else AttrSource(source, name)

    def _dict(self, tracer: Tracer) -> VariableTracker:
        # A new object has an empty dict at first: the traced code stored everything in it.
        if self.is_new():
            return InstanceDictVariable(tracer, self, {}, self._lazy)
        return dict_view_of(tracer, self, instance_dict(self.value), self._lazy)

    def _not_shadowed(self, tracer: Tracer, name: str) -> None:
        if self.source is None or self.is_new() or not has_dict(self.value):
            return
        if tracer.side_effects.is_deleted(self, name):  # the program deleted the entry: no guard is needed
            return
        if keeps_dict_elsewhere(self.cls):
            tracer.guard(AttrSource(self.source, "__dict__"), GuardKind.DICT_CONTAINS, (name, False))
        else:
            tracer.guard(self.source, GuardKind.NOT_IN_GENERIC_DICT, name)

    def own_class(self, tracer: Tracer) -> VariableTracker:
        """``type(value)``."""
        return tracer.wrap(self.cls, self.class_source)

    def _class_source(self, name: str) -> Source | None:
        if self.source is not None and not self.has_new_class:
            return MethodFunctionSource(self.source, name)
        return None if self.class_source is None else ClassMemberSource(self.class_source, name)

    def _class_value(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        source = self._class_source(name)
        match found:
            case _ if isinstance(found, BINDS):
                return MethodVariable(tracer.wrap(found, source), self)
            case _ if isinstance(found, INSTANCE_METHOD):
                # A guard on the members of the class exists already.
                bound = None if self.source is None else AttrSource(self.source, name)
                return MethodVariable(tracer.wrap(getattr(self.cls, name), None), self, bound)
            case staticmethod():
                return tracer.wrap(found.__func__, None if source is None else AttrSource(source, "__func__"))
            case classmethod():
                owner = self.own_class(tracer)
                return MethodVariable(
                    tracer.wrap(found.__func__, None if source is None else AttrSource(source, "__func__")), owner
                )
            case _ if is_class_method_in_c(found):
                owner = self.own_class(tracer)
                return MethodVariable(tracer.wrap(found, source), owner)
            case types.BuiltinFunctionType() if name not in object.__dict__:  # class A: act = torch.relu
                return tracer.wrap(found, source)
            case _ if isinstance(found, METHODS_IN_C):
                return BuiltinMethodVariable(self, name)
        # A descriptor without ``__set__``, such as ``functools.cached_property``, written in Python:
        # its ``__get__`` is traced.
        getter = class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            return self._user_descriptor(tracer, found, getter, source)
        return tracer.wrap(found, source)

    def _descriptor(self, tracer: Tracer, name: str, found: object) -> VariableTracker | None:
        match found:
            case property():
                if found.fget is None:
                    tracer.raise_exception(
                        AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no getter"
                    )
                if not isinstance(found.fget, types.FunctionType) and (computed := self._constant_in_c(tracer, name)):
                    return computed
                source = self._class_source(name)
                # The getter, not the descriptor: ``fget`` may be replaced only with the property, which is guarded.
                fget = tracer.wrap(found.fget, None if source is None else AttrSource(source, "fget"))
                tracer.hand_over(self, fget)
                return tracer.call(fget, [self])
            case types.MemberDescriptorType() | types.GetSetDescriptorType() if name == "__dict__":
                return self._dict(tracer)  # the ``__dict__`` of a SimpleNamespace is a member descriptor
            case types.MemberDescriptorType():  # a slot
                return self._slot(tracer, name, found)
            case types.GetSetDescriptorType() if is_fixed(self.cls, name) and not self.is_new():
                return self._lazy(tracer, name, found.__get__(self.value))
            case types.GetSetDescriptorType():
                return self._constant_in_c(tracer, name) or super().get_attribute(tracer, name)
        getter = class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            return self._user_descriptor(tracer, found, getter, self._class_source(name))
        return super().get_attribute(tracer, name)

    def _constant_in_c(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """The constant that C computes for an attribute (``Struct.size``); None if it is none."""
        is_changed = tracer.side_effects.attribute(self, name) is not None or tracer.side_effects.is_deleted(self, name)
        if self.source is None or self.is_new() or is_changed:
            return None
        computed = constant_in_c(self.value, name)
        return None if computed is NO_CONSTANT else self._lazy(tracer, name, computed)

    def _slot(self, tracer: Tracer, name: str, found: types.MemberDescriptorType) -> VariableTracker | None:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if not self.is_new() and not tracer.side_effects.is_deleted(self, name):
            try:
                # A slot without a value raises AttributeError, like a missing attribute.
                value = found.__get__(self.value)
            except AttributeError:  # nothing was stored in it yet
                pass
            else:
                return self._lazy(tracer, name, value)
        return None

    def _user_descriptor(
        self, tracer: Tracer, found: object, getter: types.FunctionType, source: Source | None
    ) -> VariableTracker:
        descriptor = tracer.wrap(found, source)
        below = None if source is None else MethodFunctionSource(source, "__get__")
        return tracer.call(tracer.wrap(getter, below), [descriptor, self, self.own_class(tracer)])

    def _fallback(self, tracer: Tracer, name: str) -> VariableTracker:
        getter = self.on_class(tracer, "__getattr__")
        # ``__getattr__`` is called only if normal lookup fails, so that its failure is guarded: neither the instance
        # nor the class has the name.
        if isinstance(getter, types.FunctionType):
            self._not_shadowed(tracer, name)
            self._not_in_class(tracer, name)
            return tracer.call(tracer.wrap(getter, self._class_source("__getattr__")), [self, ConstantVariable(name)])
        self.missing(tracer, name)

    def _guard_absence(self, tracer: Tracer, source: Source, name: str) -> None:
        # Guards must not run the program's own code: ``hasattr`` calls ``__getattr__`` and ``__getattribute__``.
        if self._has_getattr():
            self._not_shadowed(tracer, name)
        elif self._has_getattribute() or self.has_new_class:
            self._not_shadowed(tracer, name)
            self._not_in_class(tracer, name)
        else:
            tracer.guard(source, GuardKind.HASATTR, (name, False))

    def _not_in_class(self, tracer: Tracer, name: str) -> None:
        of_metaclass = class_lookup(type(self.cls), name)
        if self.class_source is None or class_lookup(self.cls, name) is not MISSING or of_metaclass is not MISSING:
            return
        tracer.guard(self.class_source, GuardKind.HASATTR, (name, False))

    def _has_getattribute(self) -> bool:
        return isinstance(class_lookup(self.cls, "__getattribute__"), types.FunctionType)

    def _has_getattr(self) -> bool:
        return isinstance(class_lookup(self.cls, "__getattr__"), types.FunctionType)

    def missing(self, tracer: Tracer, name: str) -> NoReturn:
        """Raise the AttributeError of ``object.__getattribute__``."""
        if not self.is_new() and keeps_dict_elsewhere(self.cls) and self._is_found_in_c(name):
            self.no_method("__getattribute__")
        if self.source is not None and not self.is_new() and not tracer.side_effects.is_deleted(self, name):
            self._guard_absence(tracer, self.source, name)
        elif self.is_new():
            self._not_in_class(tracer, name)
        tracer.raise_exception(AttributeError, f"'{self.error_name()}' object has no attribute '{name}'")

    def _is_found_in_c(self, name: str) -> bool:
        try:
            accessor_in_c(self.cls, "__getattribute__")(self.value, name)
        except AttributeError:
            return False
        return True

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        setter = self.on_class(tracer, "__setattr__")
        if setter not in PLAIN_SETTERS and not isinstance(setter, types.FunctionType):
            self.no_method("__setattr__")  # the C code may do more than store
        if isinstance(setter, types.FunctionType):
            tracer.call(tracer.wrap(setter, self._class_source("__setattr__")), [self, ConstantVariable(name), value])
            return
        self.plain_set_attribute(tracer, name, value)

    def plain_set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        """``object.__setattr__``."""
        # A data descriptor of the class comes before the object's dict; a setter in Python is traced.
        found = self.on_class(tracer, name)
        if isinstance(found, property):
            if found.fset is None:
                tracer.raise_exception(
                    AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter"
                )
            source = self._class_source(name)
            tracer.call(tracer.wrap(found.fset, None if source is None else AttrSource(source, "fset")), [self, value])
            return
        setter = MISSING if found is MISSING else class_lookup(type(found), "__set__")
        if isinstance(setter, types.FunctionType):
            source = self._class_source(name)
            below = None if source is None else MethodFunctionSource(source, "__set__")
            tracer.call(tracer.wrap(setter, below), [tracer.wrap(found, source), self, value])
            return
        if is_class_slot(found):
            self._change_class(tracer, expect_class(tracer, self.cls, value))
            return
        self._check_storage(tracer, setattr, name, None)
        self._store(tracer, name, value)

    def _change_class(self, tracer: Tracer, cls: ClassVariable) -> None:
        if self.has_fixed_class:
            raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, f"{self.describe()}.__class__ = ...", name="class")
        tracer.side_effects.store_attribute(tracer, self, "__class__", cls)
        self.cls, self.has_new_class = cls.value, True
        self.class_source = address_of(cls.value) if cls.source is None else cls.source

    def _store(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def _remove(self, tracer: Tracer, name: str) -> None:
        tracer.side_effects.delete_attribute(tracer, self, name)

    def _check_storage(self, tracer: Tracer, function: Callable[..., None], name: str, *value: object) -> None:
        """Raise Python's AttributeError if the object has neither a dict nor a slot for the attribute."""
        found = class_lookup(self.cls, name)
        if self.cls.__dictoffset__ or keeps_dict_elsewhere(self.cls) or is_data_descriptor(found):
            return
        members = {"__slots__": ()} if found is MISSING else {"__slots__": (), name: found}
        # An object of a new class raises the error: its message differs between versions of Python.
        tracer.evaluate(function, (type(self.cls.__name__, (), members)(), name, *value))

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        deleter = class_lookup(self.cls, "__delattr__")
        if isinstance(deleter, types.FunctionType):
            tracer.call(tracer.wrap(deleter, self._class_source("__delattr__")), [self, ConstantVariable(name)])
            return
        self.plain_delete_attribute(tracer, name)

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        """``object.__delattr__``."""
        found = class_lookup(self.cls, name)
        source = self._class_source(name)
        if isinstance(found, property):
            if found.fdel is None:
                tracer.raise_exception(
                    AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no deleter"
                )
            tracer.call(tracer.wrap(found.fdel, None if source is None else AttrSource(source, "fdel")), [self])
            return
        deleter = MISSING if found is MISSING else class_lookup(type(found), "__delete__")
        if isinstance(deleter, types.FunctionType):
            below = None if source is None else MethodFunctionSource(source, "__delete__")
            tracer.call(tracer.wrap(deleter, below), [tracer.wrap(found, source), self])
            return
        self._check_storage(tracer, delattr, name)
        # ``del obj.slot`` raises if the slot is empty.
        if isinstance(found, types.MemberDescriptorType):
            if self._slot(tracer, name, found) is None:
                tracer.raise_exception(AttributeError, name)
        elif self._instance_attribute(tracer, name) is None:
            tracer.raise_exception(AttributeError, f"'{self.error_name()}' object has no attribute '{name}'")
        self._remove(tracer, name)

    # -- calls and operators -------------------------------------------------------------

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        method = self._special_method(tracer, "__call__")
        # The result of ``__call__`` is the result of the call instruction.
        tracer.hand_over(self, method)
        return tracer.call(method, arguments, keywords)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        found = self.on_class(tracer, name)
        if isinstance(found, METHODS_IN_C):
            return self.builtin_method(tracer, getattr(found, "__objclass__", object), name, arguments, keywords)
        # Every class has ``object.__init__``; if it is not overridden it does nothing.
        if name == "__init__" and found is MISSING:
            return ConstantVariable(None)
        return super().call_method(tracer, name, arguments, keywords)

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        """A method in C: ``object``'s own, or one of the built-in part."""
        polyfill: Any = POLYFILLS.get(cls, {}).get(name)
        if polyfill is not None:
            return tracer.call(FunctionVariable(polyfill), [self, *arguments], keywords)
        if name in OBJECT_METHODS and cls in (object, threading.local, types.SimpleNamespace):
            given = (realise(tracer, each) for each in (*arguments, *keywords.values()))
            return OBJECT_METHODS[name](tracer, self, *given)
        if name == "__new__":  # a static method: looked up on an instance it is not bound
            return tracer.call(tracer.wrap(class_lookup(self.cls, name), None), arguments, keywords)
        if cls is object:
            method = tracer.wrap(getattr(object, name), None)
            if isinstance(method, PolyfillVariable):
                return method.call(tracer, [self, *arguments], keywords)
        if self.base_items is not None:
            if name in DEQUE_COPIES and isinstance(self.base_items, DequeVariable):
                limit = ConstantVariable(self.base_items.maxlen)
                return tracer.call_python(DEQUE_COPIES[name], self, limit, *arguments)
            result = self._call_base(tracer, cls, name, arguments, keywords)
            # An in-place operator returns the object that it changed.
            return self if result is self.base_items and name in IN_PLACE else result
        self.no_method(name)

    def _has_keys_of_its_own(self, tracer: Tracer) -> bool:
        # As ``dict.update``, the C code of ``copy`` calls ``keys`` of a class with an ``__iter__``, unless it is empty.
        entries = self.base_items
        return isinstance(entries, DictVariable) and not self.is_built_in("__iter__") and bool(entries.keys(tracer))

    def _call_base(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        """A method of the built-in part; ``dict.__getitem__`` calls the class's own ``__missing__``."""
        assert self.base_items is not None
        if isinstance(self.base_items, ContainerVariable) and not arguments and not keywords:
            answer = self._container_method(tracer, cls, name)
            if answer is not None:
                return answer
        if cls is dict and name == "__getitem__" and len(arguments) == 1:
            own = isinstance(self.on_class(tracer, "__missing__"), types.FunctionType)
            if own and not self.base_items.contains(tracer, realise(tracer, arguments[0])):
                return self._special(tracer, "__missing__", arguments, {})
        result = self.base_items.builtin_method(tracer, cls, name, arguments, keywords)
        # ``t[:]`` is a new tuple, and a plain one.
        is_itself = isinstance(result, TupleVariable) and result is self.base_items
        return result.like(result.items) if is_itself else result  # type: ignore[attr-defined]

    def _container_method(self, tracer: Tracer, cls: type, name: str) -> VariableTracker | None:
        """A method without arguments of a container that needs more than the built-in method; None: any other."""
        assert self.base_items is not None
        if name == "__hash__" and cls in (tuple, frozenset):
            return tracer.call(tracer.wrap(hash, None), [self.base_items])
        if name == "__repr__":
            return self._text_of_base(tracer, cls)
        if name == "copy" and cls is dict and self._has_keys_of_its_own(tracer):
            return tracer.call(ClassVariable(dict), [self])
        return None

    def _text_of_base(self, tracer: Tracer, cls: type) -> VariableTracker:
        """``__repr__`` in C of a container: that of a list, tuple or dict omits the class's name, others include it."""
        assert self.base_items is not None
        text = representation(tracer, self.base_items, cls, self.cls.__name__)
        if text is None:
            self.no_method("__repr__")
        return text

    def _special(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(self._special_method(tracer, name), arguments, keywords)

    def _special_method(self, tracer: Tracer, name: str) -> VariableTracker:
        """A special method: looked up on the class, never on the instance."""
        # ``obj.__len__ = f`` does not change ``len(obj)``. A None in the class (``__hash__ = None``) forbids the
        # operation.
        found = self.on_class(tracer, name)
        if found is MISSING or found is None:
            message = TYPE_ERRORS.get(name, f"'{{}}' object does not support {name}")
            if found is None:
                message = OF_NONE.get(name, "'NoneType' object is not callable")
            tracer.raise_exception(TypeError, message.format(self.error_name()))
        return self._class_value(tracer, name, found)

    def has_special(self, tracer: Tracer, name: str) -> bool:
        """True if the class (beyond ``object``) defines a special method."""
        found = self.on_class(tracer, name)
        return found is not MISSING and found is not None and found is not getattr(object, name, MISSING)

    def is_built_in(self, name: str) -> bool:
        """True if a special method is that of the built-in part."""
        found = class_lookup(self.cls, name)
        return self.base_items is not None and (found is MISSING or isinstance(found, METHODS_IN_C))

    def fits_a_node(self) -> bool:
        return self.base_items is not None and self.base_items.fits_a_node()

    def proxy(self) -> object:
        return self.base_items.proxy() if self.base_items is not None else super().proxy()

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        items = self.base_items
        plain = isinstance(items, DictVariable) and class_lookup(self.cls, "__getitem__") is dict.__getitem__
        if plain and self.has_special(tracer, "__missing__") and not items.contains(tracer, key):  # type: ignore[union-attr]
            return self._special(tracer, "__missing__", [key], {})
        method = self._special_method(tracer, "__getitem__")
        tracer.hand_over(self, method)
        return tracer.call(method, [key])

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self._special(tracer, "__setitem__", [key, value], {})

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        if not self.has_special(tracer, "__delitem__"):
            super().delete_item(tracer, key)
        self._special(tracer, "__delitem__", [key], {})

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if self.on_class(tracer, "__contains__") is not MISSING:
            return self._special(tracer, "__contains__", [item], {}).truth(tracer)
        try:
            iterator = self.iterate(tracer)
        except ObservedException as error:
            if issubclass(error.value.python_type(), TypeError):  # whatever its message is
                tracer.raise_exception(TypeError, TYPE_ERRORS["__contains__"].format(self.type_name()))
            raise
        return self.search(tracer, iterator, item)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        if self.has_special(tracer, "__iter__"):
            iterator = realise(tracer, self._special(tracer, "__iter__", [], {}))
            if iterator.lacks("__next__"):
                tracer.raise_exception(TypeError, f"iter() returned non-iterator of type '{iterator.type_name()}'")
            return iterator
        self.check_iterable(tracer)
        if self.has_special(tracer, "__getitem__"):
            return tracer.iterate_by_index(self)
        tracer.raise_exception(TypeError, f"'{self.error_name()}' object is not iterable")

    def check_iterable(self, tracer: Tracer) -> None:
        super().check_iterable(tracer)
        if class_lookup(self.cls, "__iter__") is None:
            tracer.raise_exception(TypeError, TYPE_ERRORS["__iter__"].format(self.type_name()))

    def listed(self, tracer: Tracer) -> list[VariableTracker]:
        if not isinstance(class_lookup(self.cls, "__len__"), types.FunctionType):
            return self.unpack(tracer)
        iterator = realise(tracer, self.iterate(tracer))
        try:
            self.length(tracer)
        except ObservedException as error:
            if not issubclass(error.value.python_type(), TypeError):
                raise
        return iterator.unpack(tracer)

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        return tracer.until_stop(self, lambda: self._special(tracer, "__next__", [], {}))

    def length(self, tracer: Tracer) -> VariableTracker:
        return special_results.checked(tracer, "__len__", self._special(tracer, "__len__", [], {}), self)

    def truth(self, tracer: Tracer) -> bool:
        for name in ("__bool__", "__len__"):
            if self.on_class(tracer, name) is not MISSING:
                return special_results.checked(tracer, name, self._special(tracer, name, [], {}), self).truth(tracer)
        return True

    # -- reconstruction ------------------------------------------------------------------

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        if not self.is_new():
            return Constant(self.value, self.cls.__name__)
        return reconstruction.shared(
            self, lambda: self._make(reconstruction), fill=lambda: reconstruction.attributes(self)
        )

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        cls = Constant(self.cls, self.cls.__name__)
        if isinstance(self.base_items, TupleVariable):
            items = tuple(reconstruction.recipe(item) for item in self.base_items.items)
            return Call(Constant(tuple.__new__, "new"), (cls, Build("tuple", items)))
        if isinstance(self.base_items, DequeVariable):
            return Call(Constant(empty_deque, "empty_deque"), (cls, Constant(self.base_items.maxlen)))
        plain = types.SimpleNamespace if issubclass(self.cls, types.SimpleNamespace) else object
        base = plain if self.base_items is None else self.base_items.python_type()
        given = (reconstruction.recipe(self.base_items),) if isinstance(self.base_items, ConstantVariable) else ()
        return Call(Constant(base.__new__, "new"), (cls, *given))


def with_class_source(cls: ClassVariable, instance: VariableTracker) -> VariableTracker:
    """A new object, which has the source of its class."""
    if (
        isinstance(instance, ObjectVariable)
        and instance.is_new()
        and instance.cls is cls.value
        and cls.source is not None
    ):
        instance.class_source = cls.source
    return instance


# -- the methods of object ---------------------------------------------------------------------


def _set(tracer: Tracer, owner: ObjectVariable, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    owner.plain_set_attribute(tracer, str(name.constant()), value)
    return ConstantVariable(None)


def _delete(tracer: Tracer, owner: ObjectVariable, name: VariableTracker) -> VariableTracker:
    owner.plain_delete_attribute(tracer, str(name.constant()))
    return ConstantVariable(None)


def _get(tracer: Tracer, owner: ObjectVariable, name: VariableTracker) -> VariableTracker:
    attribute = str(name.constant())
    found = owner.generic_attribute(tracer, attribute)
    if found is None:
        owner.missing(tracer, attribute)
    return found


def _initialise(tracer: Tracer, owner: ObjectVariable, *arguments: VariableTracker) -> VariableTracker:
    # It raises for unused arguments if the class defines ``__init__`` or does not define ``__new__``.
    own = class_lookup(owner.cls, "__init__") is not vars(object)["__init__"]
    if arguments and (own or class_lookup(owner.cls, "__new__") is vars(object)["__new__"]):
        name = "object" if own else owner.cls.__name__
        message = f"{name}.__init__() takes exactly one argument (the instance to initialize)"
        tracer.raise_exception(TypeError, message)
    return ConstantVariable(None)


def _equal(tracer: Tracer, owner: ObjectVariable, other: VariableTracker) -> VariableTracker:
    return ConstantVariable(True if other is owner else NotImplemented)


def _unequal(tracer: Tracer, owner: ObjectVariable, other: VariableTracker) -> VariableTracker:
    found = tracer.call_special(owner, "__eq__", [other])
    unknown = found.is_constant() and found.constant() is NotImplemented
    return found if unknown else ConstantVariable(not found.truth(tracer))


def _hash(tracer: Tracer, owner: ObjectVariable) -> VariableTracker:
    return HashVariable(object.__hash__, owner, ("object", id(owner if owner.is_new() else owner.value)))


def _text(tracer: Tracer, owner: ObjectVariable) -> VariableTracker:
    if not owner.has_special(tracer, "__repr__"):
        owner.no_method("__repr__")  # the text has the address
    return tracer.call_special(owner, "__repr__", [])


def _format(tracer: Tracer, owner: ObjectVariable, specification: VariableTracker) -> VariableTracker:
    if specification.constant():
        name = owner.error_name()
        tracer.raise_exception(TypeError, f"unsupported format string passed to {name}.__format__")
    return tracer.call(tracer.wrap(str, None), [owner])


POLYFILLS: dict[type, dict[str, Any]] = {
    types.SimpleNamespace: namespaces.METHODS,
    collections.OrderedDict: ordered.METHODS,
}
"""Methods in C that are traced through functions in Python, by their class."""

OBJECT_METHODS: dict[str, Callable[..., VariableTracker]] = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getattribute__": _get,
    "__init__": _initialise,
    "__eq__": _equal,
    "__ne__": _unequal,
    "__hash__": _hash,
    "__str__": _text,
    "__format__": _format,
}


def built_in_part(value: VariableTracker) -> VariableTracker:
    """Tracker of the items of an object whose class derives from list, dict ..."""
    return value.base_items if isinstance(value, ObjectVariable) and value.base_items is not None else value
