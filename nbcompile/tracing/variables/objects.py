"""Classes, objects of user classes, nn.Modules, Python modules: Python's data model in one place.

Attribute look-up follows ``object.__getattribute__``: data descriptors of the
class, the instance's dict, the rest of the class, ``__getattr__``. What is found
is guarded at its own address; what was stored while tracing is found first.

    self.weight      L['self']._parameters['weight']
    self.scale = 2   noted in side_effects, replayed after the graph

In torch: torch/_dynamo/variables/user_defined.py and nn_module.py. Read next:
nbcompile/tracing/side_effects.py
"""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import TYPE_CHECKING, NoReturn

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Build, Call, Constant, FromSource, Recipe
from nbcompile.capture.source import (
    AttrSource,
    ClassMemberSource,
    ItemSource,
    MethodFunctionSource,
    ModuleSource,
    Source,
    TypeSource,
)
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import BuiltinMethodVariable, TupleVariable

if TYPE_CHECKING:
    from nbcompile.tracing.reconstruction import Reconstruction

MISSING = object()
STORES = ("_parameters", "_buffers", "_modules")
"""Where an nn.Module keeps what is no plain attribute."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ModuleVariable(VariableTracker):
    """An imported Python module."""

    def __init__(self, value: types.ModuleType, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return types.ModuleType

    def describe(self) -> str:
        return f"PythonModuleVariable({self.value.__name__})"

    def hash_key(self) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        return overlay if overlay is not None else tracer.module_attribute(self.value, name, self.source)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def identity(self) -> object:
        return self.value

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)


class ClassVariable(VariableTracker):
    """A class; calling it makes a new object."""

    def __init__(self, value: type, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"UserDefinedClassVariable({self.value})"

    def hash_key(self) -> Hashable:
        return self.value

    def is_constant(self) -> bool:
        return False

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return ConstantVariable(getattr(self.value, name))
        if name in ("__mro__", "__bases__"):
            return TupleVariable([tracer.wrap(each, None) for each in getattr(self.value, name)])
        if name == "__class__":
            return tracer.wrap(type(self.value), None)
        overlay = class_overlay(tracer, self.value, name)
        if overlay is not None:
            return overlay
        return tracer.class_attribute(self, self.value, name)

    def identity(self) -> object:
        return self.value

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.instantiate(self, arguments, keywords)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if isinstance(self.value, type) and key.is_constant() and hasattr(type(self.value), "__members__"):
            return tracer.constant_or_wrap(tracer.evaluate(lambda: self.value[key.constant()], ()))  # type: ignore[index]
        return super().get_item(tracer, key)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        if hasattr(type(self.value), "__members__"):  # an Enum class
            return tracer.iterator([ConstantVariable(each) for each in self.value])  # type: ignore[attr-defined]
        return super().iterate(tracer)

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)


class ObjectVariable(VariableTracker):
    """An object of a user's class: from outside (``value``) or made by the traced code."""

    def __init__(self, cls: type, value: object = MISSING, source: Source | None = None) -> None:
        self.cls = cls
        self.value = value
        self.source = source
        self.class_source: Source | None = None
        """Where the class of a new object came from."""
        self.base_items: VariableTracker | None = None
        """For subclasses of list, dict, tuple...: the tracker of the built-in part."""
        self.seen: dict[str, VariableTracker] = {}
        """Attributes that were read, still unguarded where nothing looked at them."""

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"UserDefinedObjectVariable({self.cls.__name__})"

    def is_new(self) -> bool:
        """Whether the traced code made it."""
        return self.value is MISSING

    def hash_key(self) -> Hashable:
        if getattr(self.cls, "__hash__", None) in (object.__hash__, torch.nn.Module.__hash__):
            return ("object", id(self.value) if not self.is_new() else id(self))
        if not self.is_new() and self.source is not None:
            return self.value
        return super().hash_key()

    # -- attributes ----------------------------------------------------------------------

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(self.cls, None if self.source is None else TypeSource(self.source))
        custom = _class_lookup(self.cls, "__getattribute__")
        if custom is not object.__getattribute__ and isinstance(custom, types.FunctionType):
            return tracer.call(
                tracer.wrap(custom, self._class_source("__getattribute__")), [self, ConstantVariable(name)]
            )
        return self.generic_attribute(tracer, name)

    def generic_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        """``object.__getattribute__``, then ``__getattr__``."""
        found = _class_lookup(self.cls, name)
        if found is not MISSING and _is_data_descriptor(found):
            return self._descriptor(tracer, name, found)
        own = self._instance_attribute(tracer, name)
        if own is not None:
            return own
        changed = class_overlay(tracer, self.cls, name)
        if changed is not None or found is not MISSING:
            self._not_shadowed(tracer, name)
        if changed is not None:
            return MethodVariable(changed, self) if changed.python_type() is types.FunctionType else changed
        if found is not MISSING:
            return self._class_value(tracer, name, found)
        return self._fallback(tracer, name)

    def _instance_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if name == "__dict__":
            return self._dict(tracer)
        if self.is_new() or tracer.side_effects.is_deleted(self, name):
            return None
        members = _instance_dict(self.value)
        return self._lazy(tracer, name, members[name]) if name in members else None

    def _lazy(self, tracer: Tracer, name: str, value: object) -> VariableTracker:
        """An attribute that is looked at when it is used: the same tracker each time."""
        if self.source is None:
            return tracer.wrap(value, None)
        return self.seen.setdefault(name, LazyVariable(value, AttrSource(self.source, name)))

    def _dict(self, tracer: Tracer) -> VariableTracker:
        return InstanceDictVariable(tracer, self, {} if self.is_new() else _instance_dict(self.value))

    def _not_shadowed(self, tracer: Tracer, name: str) -> None:
        if self.source is not None and not self.is_new() and hasattr(self.value, "__dict__"):
            tracer.guard(self.source, GuardKind.NOT_IN_GENERIC_DICT, name)

    def _class_source(self, name: str) -> Source | None:
        if self.source is not None:
            return MethodFunctionSource(self.source, name)
        return None if self.class_source is None else ClassMemberSource(self.class_source, name)

    def _class_value(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        source = self._class_source(name)
        match found:
            case types.FunctionType():
                return MethodVariable(tracer.wrap(found, source), self)
            case staticmethod():
                return tracer.wrap(found.__func__, None if source is None else AttrSource(source, "__func__"))
            case classmethod():
                owner = tracer.wrap(self.cls, None if self.source is None else TypeSource(self.source))
                return MethodVariable(
                    tracer.wrap(found.__func__, None if source is None else AttrSource(source, "__func__")), owner
                )
            case types.WrapperDescriptorType() | types.MethodDescriptorType() | types.BuiltinFunctionType():
                return BuiltinMethodVariable(self, name)
        getter = _class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            return self._user_descriptor(tracer, found, getter, source)
        return tracer.wrap(found, source)

    def _descriptor(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        match found:
            case property():
                if found.fget is None:
                    tracer.raise_exception(
                        AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no getter"
                    )
                source = self._class_source(name)
                return tracer.call(
                    tracer.wrap(found.fget, None if source is None else AttrSource(source, "fget")), [self]
                )
            case types.MemberDescriptorType():  # a slot
                return self._slot(tracer, name, found)
            case types.GetSetDescriptorType():
                if name == "__dict__":
                    return self._dict(tracer)
                return super().get_attribute(tracer, name)
        getter = _class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            return self._user_descriptor(tracer, found, getter, self._class_source(name))
        return super().get_attribute(tracer, name)

    def _slot(self, tracer: Tracer, name: str, found: types.MemberDescriptorType) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if not self.is_new() and not tracer.side_effects.is_deleted(self, name):
            try:
                value = found.__get__(self.value)
            except AttributeError:  # nothing was stored in it yet
                pass
            else:
                return self._lazy(tracer, name, value)
        return self._fallback(tracer, name)

    def _user_descriptor(
        self, tracer: Tracer, found: object, getter: types.FunctionType, source: Source | None
    ) -> VariableTracker:
        descriptor = tracer.wrap(found, source)
        below = None if source is None else MethodFunctionSource(source, "__get__")
        return tracer.call(tracer.wrap(getter, below), [descriptor, self, tracer.wrap(self.cls, None)])

    def _fallback(self, tracer: Tracer, name: str) -> VariableTracker:
        getter = _class_lookup(self.cls, "__getattr__")
        if isinstance(getter, types.FunctionType):
            self._not_shadowed(tracer, name)
            if self.source is not None:
                tracer.guard(TypeSource(self.source), GuardKind.HASATTR, (name, False))
            return tracer.call(tracer.wrap(getter, self._class_source("__getattr__")), [self, ConstantVariable(name)])
        self._missing(tracer, name)

    def _missing(self, tracer: Tracer, name: str) -> NoReturn:
        if self.source is not None and not self.is_new() and not tracer.side_effects.is_deleted(self, name):
            tracer.guard(self.source, GuardKind.HASATTR, (name, False))
        tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        setter = _class_lookup(self.cls, "__setattr__")
        if setter is not object.__setattr__ and not isinstance(setter, types.FunctionType):
            self.no_method("__setattr__")  # C code: types.SimpleNamespace's
        if isinstance(setter, types.FunctionType):
            tracer.call(tracer.wrap(setter, self._class_source("__setattr__")), [self, ConstantVariable(name), value])
            return
        self.plain_set_attribute(tracer, name, value)

    def plain_set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        """``object.__setattr__``."""
        found = _class_lookup(self.cls, name)
        if isinstance(found, property):
            if found.fset is None:
                tracer.raise_exception(
                    AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter"
                )
            source = self._class_source(name)
            tracer.call(tracer.wrap(found.fset, None if source is None else AttrSource(source, "fset")), [self, value])
            return
        setter = MISSING if found is MISSING else _class_lookup(type(found), "__set__")
        if isinstance(setter, types.FunctionType):
            source = self._class_source(name)
            below = None if source is None else MethodFunctionSource(source, "__set__")
            tracer.call(tracer.wrap(setter, below), [tracer.wrap(found, source), self, value])
            return
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        found = _class_lookup(self.cls, name)
        present = (
            self._slot(tracer, name, found)
            if isinstance(found, types.MemberDescriptorType)
            else self._instance_attribute(tracer, name)
        )
        if present is None:
            tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        tracer.side_effects.delete_attribute(tracer, self, name)

    # -- calls and operators -------------------------------------------------------------

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self._special(tracer, "__call__", arguments, keywords)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        found = _class_lookup(self.cls, name)
        if found is object.__setattr__:
            target, value = (realise(tracer, each) for each in arguments)
            self.plain_set_attribute(tracer, str(target.constant()), value)
            return ConstantVariable(None)
        if found is object.__init__ or (name == "__init__" and found is MISSING):
            return ConstantVariable(None)
        if found is object.__getattribute__:
            return self.generic_attribute(tracer, str(realise(tracer, arguments[0]).constant()))
        if found is object.__eq__:
            return ConstantVariable(True if arguments[0] is self else NotImplemented)
        if found is object.__ne__:
            return ConstantVariable(not tracer.equal(self, arguments[0]))
        if found is object.__hash__:
            return ConstantVariable(hash(self.value) if not self.is_new() else id(self) >> 4)
        if self.base_items is not None and isinstance(
            found, (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)
        ):
            return self.base_items.call_method(tracer, name, arguments, keywords)
        if (
            found is object.__repr__
            or found is object.__str__
            or isinstance(found, (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType))
        ):
            self.no_method(name)
        return super().call_method(tracer, name, arguments, keywords)

    def _special(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """A special method: looked up on the class, never on the instance."""
        found = _class_lookup(self.cls, name)
        if found is MISSING or found is None:
            tracer.raise_exception(TypeError, f"'{self.cls.__name__}' object does not support {name}")
        return tracer.call(self._class_value(tracer, name, found), arguments, keywords)

    def has_special(self, name: str) -> bool:
        """Whether the class (beyond ``object``) defines a special method."""
        found = _class_lookup(self.cls, name)
        return found is not MISSING and found is not None and found is not getattr(object, name, MISSING)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        items = self.base_items
        plain = isinstance(items, DictVariable) and _class_lookup(self.cls, "__getitem__") is dict.__getitem__
        if plain and self.has_special("__missing__") and not items.contains(tracer, key):  # type: ignore[union-attr]
            return self._special(tracer, "__missing__", [key], {})
        return self._special(tracer, "__getitem__", [key], {})

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self._special(tracer, "__setitem__", [key, value], {})

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        self._special(tracer, "__delitem__", [key], {})

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if self.has_special("__contains__"):
            return self._special(tracer, "__contains__", [item], {}).truth(tracer)
        return any(each is item or tracer.equal(each, item) for each in self.unpack(tracer))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        if self.has_special("__iter__"):
            return self._special(tracer, "__iter__", [], {})
        if self.has_special("__getitem__"):
            return tracer.iterate_by_index(self)
        tracer.raise_exception(TypeError, f"'{self.cls.__name__}' object is not iterable")

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        return tracer.until_stop(lambda: self._special(tracer, "__next__", [], {}))

    def length(self, tracer: Tracer) -> VariableTracker:
        return self._special(tracer, "__len__", [], {})

    def truth(self, tracer: Tracer) -> bool:
        for name in ("__bool__", "__len__"):
            if self.has_special(name):
                return realise(tracer, self._special(tracer, name, [], {})).truth(tracer)
        return True

    # -- afterwards ----------------------------------------------------------------------

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        if not self.is_new():
            return Constant(self.value, self.cls.__name__)
        return reconstruction.shared(
            self, lambda: self._make(reconstruction), fill=lambda: reconstruction.attributes(self)
        )

    def _make(self, reconstruction: Reconstruction) -> Recipe:
        cls = Constant(self.cls, self.cls.__name__)
        if isinstance(self.base_items, TupleVariable):
            items = tuple(reconstruction.recipe(item) for item in self.base_items.items)
            return Call(Constant(tuple.__new__, "new"), (cls, Build("tuple", items)))
        base = object if self.base_items is None else self.base_items.python_type()
        return Call(Constant(base.__new__, "new"), (cls,))


class NNModuleVariable(ObjectVariable):
    """An nn.Module: parameters, buffers and submodules are found in their own dicts."""

    value: torch.nn.Module

    def describe(self) -> str:
        return f"UnspecializedNNModuleVariable({self.cls.__name__})"

    def _fallback(self, tracer: Tracer, name: str) -> VariableTracker:
        member = self._member(tracer, name)
        if member is not None:
            return member
        getter = _class_lookup(self.cls, "__getattr__")
        if getter is not torch.nn.Module.__getattr__ and isinstance(getter, types.FunctionType):
            return tracer.call(tracer.wrap(getter, self._class_source("__getattr__")), [self, ConstantVariable(name)])
        self._missing(tracer, name)

    def _member(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """A parameter, buffer or submodule."""
        for store in STORES:
            changed = self._changed_store(tracer, store)
            if changed is not None:
                if name in changed.entries:
                    return changed.get_item(tracer, ConstantVariable(name))
                continue
            members = {} if self.is_new() else self.value.__dict__.get(store) or {}
            if name in members:
                source = None if self.source is None else ItemSource(AttrSource(self.source, store), name)
                return tracer.wrap(members[name], source)
        return None

    def _changed_store(self, tracer: Tracer, store: str) -> DictVariable | None:
        """``_parameters`` (or the like) where the traced code replaced or changed it."""
        stored = tracer.side_effects.attribute(self, store)
        if stored is None and not self.is_new():
            stored = tracer.side_effects.known(self.value.__dict__.get(store))
        return stored if isinstance(stored, DictVariable) and (stored.changed or stored.source is None) else None

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        setter = _class_lookup(self.cls, "__setattr__")
        if setter is not torch.nn.Module.__setattr__:
            super().set_attribute(tracer, name, value)
        elif self._is_member(tracer, name, value):
            self._trace_own(tracer, torch.nn.Module.__setattr__, ConstantVariable(name), value)
        else:
            self.plain_set_attribute(tracer, name, value)

    def _is_member(self, tracer: Tracer, name: str, value: VariableTracker) -> bool:
        """Whether storing the value is more than storing an attribute."""
        if issubclass(value.python_type(), (torch.nn.Module, torch.nn.Parameter, torch.nn.Buffer)):
            return True
        stores = [self._changed_store(tracer, store) for store in STORES]
        real = [] if self.is_new() else [self.value.__dict__.get(store) or {} for store in STORES]
        return any(each is not None and name in each.entries for each in stores) or any(name in each for each in real)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if _class_lookup(self.cls, "__delattr__") is torch.nn.Module.__delattr__:
            self._trace_own(tracer, torch.nn.Module.__delattr__, ConstantVariable(name))
        else:
            super().delete_attribute(tracer, name)

    def _trace_own(self, tracer: Tracer, function: object, *arguments: VariableTracker) -> None:
        # By its real body, so that the parameters, buffers and submodules all stay as nn.Module keeps them.
        tracer.call(tracer.wrap(function, None), [self, *arguments])

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__getattr__" and _class_lookup(self.cls, name) is torch.nn.Module.__getattr__:
            return NNModuleVariable._fallback(self, tracer, str(realise(tracer, arguments[0]).constant()))
        return super().call_method(tracer, name, arguments, keywords)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if self.cls.__call__ is not torch.nn.Module.__call__:
            return super().call(tracer, arguments, keywords)
        if self._has_hooks(tracer):
            implementation = tracer.wrap(torch.nn.Module._call_impl, None)
            return tracer.call(implementation, [self, *arguments], keywords)
        return tracer.call(self.get_attribute(tracer, "forward"), arguments, keywords)

    def _guard_hooks(self, tracer: Tracer) -> None:
        """A module without hooks is called as its forward; a hook that comes later is seen."""
        every = torch.nn.modules.module
        for name in ("_global_forward_hooks", "_global_forward_pre_hooks"):
            source: Source = AttrSource(ModuleSource(every.__name__), name)
            tracer.guard(source, GuardKind.DICT_LENGTH, len(getattr(every, name)))
        if self.source is not None and not self.is_new():
            for name in ("_forward_hooks", "_forward_pre_hooks"):
                tracer.guard(AttrSource(self.source, name), GuardKind.DICT_LENGTH, len(getattr(self.value, name)))

    def _has_hooks(self, tracer: Tracer) -> bool:
        self._guard_hooks(tracer)
        changed = [self._changed_store(tracer, name) for name in HOOKS]
        return any(each is not None and each.entries for each in changed) or (
            has_hooks(self.value) if not self.is_new() else has_global_hooks()
        )

    def truth(self, tracer: Tracer) -> bool:
        return super().truth(tracer) if self.has_special("__len__") or self.has_special("__bool__") else True


class SuperVariable(VariableTracker):
    """``super()``: look-up goes on after a class in the object's method order."""

    def __init__(self, cls: type, owner: VariableTracker) -> None:
        self.cls = cls
        self.owner = owner

    def python_type(self) -> type:
        return super

    def describe(self) -> str:
        return f"SuperVariable({self.cls.__name__}, {self.owner.describe()})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        owner_class = self.owner.value if isinstance(self.owner, ClassVariable) else self.owner.python_type()
        if self.cls not in owner_class.__mro__:  # in a metaclass: the class is the object
            owner_class = type(owner_class)
        after = owner_class.__mro__.index(self.cls) + 1
        for base in owner_class.__mro__[after:]:
            if name in base.__dict__:
                return self._bind(tracer, base, name, base.__dict__[name], self._member_source(name, after))
        tracer.raise_exception(AttributeError, f"'super' object has no attribute '{name}'")

    def _member_source(self, name: str, after: int) -> Source | None:
        owner = self.owner
        if isinstance(owner, ClassVariable):
            cls = owner.source if self.cls in owner.value.__mro__ else None
        elif isinstance(owner, ObjectVariable):
            cls = TypeSource(owner.source) if owner.source is not None else owner.class_source
        else:
            cls = None
        return None if cls is None else ClassMemberSource(cls, name, after)

    def _bind(self, tracer: Tracer, base: type, name: str, found: object, source: Source | None) -> VariableTracker:
        below = None if source is None else AttrSource(source, "fget" if isinstance(found, property) else "__func__")
        match found:
            case types.FunctionType():
                return MethodVariable(tracer.wrap(found, source), self.owner)
            case classmethod():
                owner = (
                    self.owner if isinstance(self.owner, ClassVariable) else tracer.wrap(self.owner.python_type(), None)
                )
                return MethodVariable(tracer.wrap(found.__func__, below), owner)
            case staticmethod():
                return tracer.wrap(found.__func__, below)
            case property():
                return tracer.call(tracer.wrap(found.fget, below), [self.owner])
            case types.WrapperDescriptorType() | types.MethodDescriptorType() | types.BuiltinFunctionType():
                return SuperMethodVariable(self.owner, base, name, found)
        return tracer.wrap(found, source)


class SuperMethodVariable(VariableTracker):
    """A method of a built-in base class, reached through ``super()``."""

    def __init__(self, owner: VariableTracker, base: type, name: str, found: object) -> None:
        self.owner = owner
        self.base = base
        self.name = name
        self.found = found

    def python_type(self) -> type:
        return type(self.found)

    def describe(self) -> str:
        return f"SuperMethod({self.base.__name__}.{self.name})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner = self.owner
        if self.base is object and isinstance(owner, ObjectVariable):
            plain = [realise(tracer, each) for each in arguments]
            if self.name == "__init__":
                return ConstantVariable(None)
            if self.name == "__setattr__":
                owner.plain_set_attribute(tracer, str(plain[0].constant()), plain[1])
                return ConstantVariable(None)
            if self.name == "__getattribute__":
                return owner.generic_attribute(tracer, str(plain[0].constant()))
            if self.name == "__delattr__":
                owner.delete_attribute(tracer, str(plain[0].constant()))
                return ConstantVariable(None)
            if self.name in ("__eq__", "__ne__", "__hash__"):
                return ObjectVariable.call_method(owner, tracer, self.name, plain, keywords)
        if self.name == "__new__" and isinstance(arguments[0], ClassVariable):
            return made_by(arguments[0], tracer.new_object(arguments[0].value, arguments[1:]))
        if isinstance(owner, ObjectVariable) and owner.base_items is not None:
            return owner.base_items.call_method(tracer, self.name, arguments, keywords)
        if isinstance(owner, ObjectVariable) and self.name == "__init__" and issubclass(self.base, BaseException):
            return ConstantVariable(None)
        context = f"super().{self.name} of {self.base.__name__}"
        raise breaks.unsupported(breaks.SUPER_ATTRIBUTE, context, name=self.name, type=self.base.__name__)


def class_overlay(tracer: Tracer, cls: type, name: str) -> VariableTracker | None:
    """What the traced code stored on a class or one of its bases."""
    for base in cls.__mro__:
        stored = tracer.side_effects.attribute_of(base, name)
        if stored is not None or name in base.__dict__:
            return stored
    return None


def made_by(cls: ClassVariable, made: VariableTracker) -> VariableTracker:
    """A new object, which remembers where its class came from."""
    if isinstance(made, ObjectVariable) and made.is_new() and made.cls is cls.value:
        made.class_source = cls.source
    return made


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling the module runs more than its ``forward``."""
    return any(getattr(module, name, None) for name in HOOKS) or has_global_hooks()


def has_global_hooks() -> bool:
    """Whether calling any module does."""
    every = torch.nn.modules.module
    return bool(
        every._global_forward_hooks
        or every._global_forward_pre_hooks
        or every._global_backward_hooks
        or every._global_backward_pre_hooks
    )


def _class_lookup(cls: type, name: str) -> object:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def _is_data_descriptor(found: object) -> bool:
    return hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")


def _instance_dict(value: object) -> dict[str, object]:
    try:
        members: dict[str, object] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return members
