"""``super()``: look-up that continues after a class in the object's method resolution order.

    super().add(x)         Account.add, bound to self
    super().__init__()     object's own, in C: implemented here

In torch: torch/_dynamo/variables/misc.py (SuperVariable). Read next:
nbcompile/tracing/calls/construction.py
"""

from __future__ import annotations

import types

from nbcompile.capture.source import AttrSource, ClassMemberSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.lookup import BINDS, is_class_method_in_c
from nbcompile.tracing.variables.objects import ObjectVariable, with_class_source


class SuperVariable(VariableTracker):
    """``super()``: look-up continues after a class in the object's method resolution order."""

    def __init__(self, cls: type, owner: VariableTracker) -> None:
        self.cls = cls
        self.owner = owner

    def python_type(self) -> type:
        return super

    def describe(self) -> str:
        return f"SuperVariable({self.cls.__name__}, {self.owner.describe()})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(super, None)
        owner_class = self.owner.value if isinstance(self.owner, ClassVariable) else self.owner.python_type()
        if self.cls not in owner_class.__mro__:  # a method of a metaclass: the object is a class
            owner_class = type(owner_class)
        # The search begins after ``cls`` in the order of the *object's* class: with multiple inheritance that need not
        # be a base of ``cls``.
        after = owner_class.__mro__.index(self.cls) + 1
        for base in owner_class.__mro__[after:]:
            if name in base.__dict__:
                return self._bind(tracer, base, name, base.__dict__[name], self._member_source(name, after))
        match name:
            case "__thisclass__":
                return tracer.wrap(self.cls, None)
            case "__self__":
                return self.owner
            case "__self_class__":
                return tracer.wrap(owner_class, None)
        tracer.raise_exception(AttributeError, f"'super' object has no attribute '{name}'")

    def _member_source(self, name: str, after: int) -> Source | None:
        owner = self.owner
        if isinstance(owner, ClassVariable):
            cls = owner.source if self.cls in owner.value.__mro__ else None
        elif isinstance(owner, ObjectVariable):
            cls = owner.class_source
        else:
            cls = None
        return None if cls is None else ClassMemberSource(cls, name, after)

    def _bind(self, tracer: Tracer, base: type, name: str, found: object, source: Source | None) -> VariableTracker:
        below = None if source is None else AttrSource(source, "fget" if isinstance(found, property) else "__func__")
        match found:
            case _ if isinstance(found, BINDS):
                return MethodVariable(tracer.wrap(found, source), self.owner)
            # ``super().make()`` of a classmethod gets the object's class as ``cls``, not ``base``.
            case classmethod():
                owner = self.owner
                if isinstance(owner, ObjectVariable):
                    owner = owner.own_class(tracer)
                elif not isinstance(owner, ClassVariable):
                    owner = owner.get_attribute(tracer, "__class__")
                return MethodVariable(tracer.wrap(found.__func__, below), owner)
            case _ if is_class_method_in_c(found) and isinstance(self.owner, ClassVariable):
                return MethodVariable(tracer.wrap(found, source), self.owner)
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
        # ``super().__new__(cls)``: the object is created, and its ``__init__`` runs later.
        if self.name == "__new__" and arguments and isinstance(cls := realise(tracer, arguments[0]), ClassVariable):
            return with_class_source(cls, tracer.new_object(cls.value, arguments[1:]))
        if isinstance(owner, ObjectVariable) and not issubclass(self.base, BaseException):  # those break in torch
            return owner.builtin_method(tracer, self.base, self.name, arguments, keywords)
        # ``object.__init_subclass__`` does nothing.
        if isinstance(owner, ClassVariable) and self.name == "__init_subclass__":
            return ConstantVariable(None)
        if isinstance(owner, ClassVariable) and self.found is type.__dict__["__call__"]:
            return tracer.make(owner, arguments, keywords)
        if isinstance(owner, ClassVariable) and self.base is type and self.name in ("__setattr__", "__delattr__"):
            return owner.builtin_method(tracer, type, self.name, arguments, keywords)
        context = f"super().{self.name} of {self.base.__name__}"
        raise breaks.unsupported(breaks.SUPER_ATTRIBUTE, context, name=self.name, type=self.base.__name__)
