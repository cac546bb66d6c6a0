"""Classes and Python modules, whose attributes are read without an instance.

    Account.kind       guarded at its own address
    Account(100)       a new object (construction.py)
    math.pi            an attribute of a module

In torch: torch/_dynamo/variables/user_defined.py (UserDefinedClassVariable) and
misc.py (PythonModuleVariable). Read next: objects.py
"""

from __future__ import annotations

import enum
import types
from collections.abc import Hashable

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Constant, FromSource, Recipe
from nbcompile.capture.source import AttrSource, ItemSource, MethodFunctionSource, NoArgsCallSource, Source, TypeSource
from nbcompile.support.class_flags import is_class_statement
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables import special_results
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.lookup import MISSING, address_of, class_lookup, class_overlay, is_data_descriptor
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.type_forms import subscripted

DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Dtype of a built-in class as an argument of an operator: ``torch.zeros(3, dtype=int)``."""


class ModuleVariable(VariableTracker):
    """An imported Python module."""

    def __init__(self, value: types.ModuleType, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return types.ModuleType

    def describe(self) -> str:
        return f"PythonModuleVariable({getattr(self.value, '__name__', self.value)})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        descriptor = None if type(self.value) is types.ModuleType else class_lookup(type(self.value), name)
        # The real getter would not see the attributes that the traced code stored.
        getter = descriptor.fget if isinstance(descriptor, property) else None
        if getter is not None and tracer.side_effects.stored_globals(self.value.__dict__):
            return tracer.call(tracer.wrap(getter, None), [self])
        return tracer.module_attribute(self.value, name, self.source)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        descriptor = class_lookup(type(self.value), name)
        if isinstance(descriptor, property) and descriptor.fset is not None:
            tracer.call(tracer.wrap(descriptor.fset, None), [self, value])
            return
        is_flag = isinstance(descriptor, torch.backends.ContextProp) and value.is_constant()
        own_rules = type(self.value).__setattr__ is not types.ModuleType.__setattr__ or is_data_descriptor(descriptor)
        if own_rules and not is_flag:
            super().set_attribute(tracer, name, value)
        # An attribute of a module is the global variable of its functions: both names have one store. A flag
        # (``torch.backends.cudnn.benchmark``) is set by the descriptor.
        owner = self if is_flag else None
        tracer.side_effects.store_global(tracer, self.value.__dict__, name, value, owner)

    def identity(self) -> object:
        return self.value

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)


_OF_A_CLASS = frozenset(("__repr__", "__str__", "__hash__", "__eq__", "__ne__", "__format__"))
"""Methods of ``object`` whose result depends only on the identity and name of a class."""


class ClassVariable(VariableTracker):
    """A class; a call creates a new object."""

    def __init__(self, value: type, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"UserDefinedClassVariable({self.value})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def is_constant(self) -> bool:
        return False

    def proxy(self) -> object:
        dtype = DTYPES.get(self.value)
        return super().proxy() if dtype is None else dtype

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            changed = tracer.side_effects.attribute_of(self.value, name)
            if changed is not None:
                return changed
            return ConstantVariable(getattr(self.value, name))
        if name in ("__mro__", "__bases__"):
            return TupleVariable([tracer.wrap(each, None) for each in getattr(self.value, name)])
        if name == "__class__":
            return tracer.wrap(type(self.value), None if self.source is None else TypeSource(self.source))
        # A metaclass of the user's may define ``__subclasses__`` itself.
        if name == "__subclasses__" and type(self.value).__subclasses__ is type.__subclasses__:
            return BuiltinMethodVariable(self, name)
        overlay = class_overlay(tracer, self.value, name)
        if overlay is not None:
            return overlay
        return tracer.class_attribute(self, self.value, name)

    def identity(self) -> object:
        return self.value

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if not self._changed_by_metaclass(tracer, "__setattr__", ConstantVariable(name), value):
            self.plain_set_attribute(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if not self._changed_by_metaclass(tracer, "__delattr__", ConstantVariable(name)):
            self.plain_delete_attribute(tracer, name)

    def _changed_by_metaclass(self, tracer: Tracer, method: str, *arguments: VariableTracker) -> bool:
        """Trace a metaclass's own method, also an enumeration's; False if it has ``type``'s."""
        found = class_lookup(type(self.value), method)
        if not isinstance(found, types.FunctionType):
            return False
        source = None if self.source is None else MethodFunctionSource(self.source, method)
        tracer.call(tracer.wrap(found, source), [self, *arguments])
        return True

    def plain_set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        """``type.__setattr__``."""
        if not is_class_statement(self.value):
            tracer.evaluate(type.__setattr__, (self.value, name, None))  # Python's own error: it cannot change
        found = class_lookup(type(self.value), name)
        if isinstance(found, property) and found.fset is not None:
            tracer.call(tracer.wrap(found.fset, None), [self, value])
            return
        # A name stored in torch.Tensor would change functions that the compiler itself calls.
        if self.value in torch_internals.members.CLASSES or self._is_descriptor(found, name):
            super().set_attribute(tracer, name, value)
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        """``type.__delattr__``."""
        if not is_class_statement(self.value):
            tracer.evaluate(type.__delattr__, (self.value, name))
        found = class_lookup(type(self.value), name)
        if self.value in torch_internals.members.CLASSES or self._is_descriptor(found, name):
            super().delete_attribute(tracer, name)
        if class_overlay(tracer, self.value, name) is None and name not in self.value.__dict__:
            tracer.raise_exception(AttributeError, f"type object '{self.value.__name__}' has no attribute '{name}'")
        tracer.side_effects.delete_attribute(tracer, self, name)

    def _is_descriptor(self, found: object, name: str) -> bool:
        """True if a descriptor of the metaclass implements the assignment (``__bases__``); two are only stored."""
        return found is not MISSING and is_data_descriptor(found) and name not in ("__doc__", "__module__")

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        given = [realise(tracer, each) for each in arguments]
        if cls is type and name in ("__setattr__", "__delattr__") and given and given[0].is_constant():
            act = self.plain_set_attribute if name == "__setattr__" else self.plain_delete_attribute
            attribute = given[0].constant()
            if not isinstance(attribute, str):
                tracer.evaluate(getattr(type, name), (self.value, attribute, *(None for _ in given[1:])))
            act(tracer, str(attribute), *given[1:])
            return ConstantVariable(None)
        if cls is type and name == "__call__":  # skips the ``__call__`` of a metaclass
            own = type(self.value).__call__ is not type.__call__
            return (tracer.make if own else tracer.instantiate)(self, arguments, keywords)
        # ``cls.__repr__`` is of the class's objects, and ``type.__repr__(cls)`` of the class.
        if cls in (type, object) and class_lookup(self.value, name) is not MISSING:
            return self._as_an_object(tracer, cls, name, given)
        return super().builtin_method(tracer, cls, name, arguments, keywords)

    def _as_an_object(self, tracer: Tracer, cls: type, name: str, arguments: list[VariableTracker]) -> VariableTracker:
        known = all(each.is_constant() or isinstance(each, ClassVariable) for each in arguments)
        if name not in _OF_A_CLASS or not known:
            what = f"{cls.__name__}.{name}(class {self.value.__name__})"
            raise breaks.unsupported(breaks.UNSUPPORTED_CALL, what, name=what)
        given = [each.value if isinstance(each, ClassVariable) else each.constant() for each in arguments]
        return tracer.constant_or_wrap(tracer.evaluate(getattr(cls, name), (self.value, *given)))

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.instantiate(self, arguments, keywords)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        found = self.of_metaclass(tracer, "__getitem__", key)
        if found is not None:
            return found
        getter = class_lookup(self.value, "__class_getitem__")
        inner = getattr(getter, "__func__", getter)
        if isinstance(inner, types.FunctionType) and inner.__module__ != "typing":
            return tracer.call(self.get_attribute(tracer, "__class_getitem__"), [key], {})
        if getter is not MISSING:
            return subscripted(tracer, self.value, key)
        if class_lookup(type(self.value), "__getitem__") is MISSING:
            tracer.raise_exception(TypeError, f"type '{self.value.__name__}' is not subscriptable")
        return super().get_item(tracer, key)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__subclasses__" and not arguments and not keywords:
            return self._subclasses(tracer)
        return super().call_method(tracer, name, arguments, keywords)

    def _subclasses(self, tracer: Tracer) -> ListVariable:
        """The list of subclasses: its items have sources, the list has none."""
        # CPython creates a new list at each call: its length and its items are guarded, not the list itself.
        subclasses: list[type] = self.value.__subclasses__()
        address = self.source or address_of(self.value) or tracer.keep(self.value, self.value.__name__)
        source = NoArgsCallSource(AttrSource(address, "__subclasses__"))
        tracer.guard(source, GuardKind.SEQUENCE_LENGTH, len(subclasses))
        return ListVariable([tracer.wrap(each, ItemSource(source, index)) for index, each in enumerate(subclasses)])

    # -- methods of its metaclass --------------------------------------------------------

    def of_metaclass(self, tracer: Tracer, name: str, *arguments: VariableTracker) -> VariableTracker | None:
        """The result of a special method of the metaclass; None if it has none in Python."""
        found = class_lookup(type(self.value), name)
        if not isinstance(found, types.FunctionType):
            return None
        # The methods of enumerations are pure, and the members are constants.
        if isinstance(self.value, enum.EnumMeta) and all(each.is_constant() for each in arguments):
            plain = (self.value, *(each.constant() for each in arguments))
            return tracer.constant_or_wrap(tracer.evaluate(found, plain))  # pure; members do not change
        source = None if self.source is None else MethodFunctionSource(self.source, name)
        return tracer.call(tracer.wrap(found, source), [self, *arguments])

    def iterate(self, tracer: Tracer) -> VariableTracker:
        if isinstance(self.value, enum.EnumMeta):
            members: list[object] = list(self.value)
            return tracer.iterator([ConstantVariable(each) for each in members])
        return self.of_metaclass(tracer, "__iter__") or super().iterate(tracer)

    def length(self, tracer: Tracer) -> VariableTracker:
        found = self.of_metaclass(tracer, "__len__")
        return super().length(tracer) if found is None else special_results.checked(tracer, "__len__", found, self)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        found = self.of_metaclass(tracer, "__contains__", item)
        return super().contains(tracer, item) if found is None else found.truth(tracer)

    def truth(self, tracer: Tracer) -> bool:
        for name in ("__bool__", "__len__"):
            if (found := self.of_metaclass(tracer, name)) is not None:
                return special_results.checked(tracer, name, found, self).truth(tracer)
        return True

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)
