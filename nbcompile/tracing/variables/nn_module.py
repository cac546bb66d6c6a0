"""nn.Modules: objects whose parameters, buffers and submodules are in dicts of their own.

    self.weight      L['self']._parameters['weight']
    self.layer(x)    its forward, as long as it has no hooks (guarded); backward hooks break the graph

In torch: torch/_dynamo/variables/nn_module.py (UnspecializedNNModuleVariable).
Read next: nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import types

import torch
import torch.fx

from nbcompile import config
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ItemSource, ModuleSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lazy_modules import is_unshaped, shape
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable

STORES = ("_parameters", "_buffers", "_modules")
"""Dicts in which an nn.Module stores its parameters, buffers and submodules."""
BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", *BACKWARD_HOOKS)
GETTER = torch.nn.Module.__getattr__
CALLS = {name: torch.nn.Module.__dict__[name] for name in ("__call__", "_wrapped_call_impl", "_call_impl")}
"""Functions that only call ``forward`` and the hooks, if no other function replaces them."""
GLOBAL_HOOKS = tuple(f"_global{name}" for name in HOOKS)


class NNModuleVariable(ObjectVariable):
    """An nn.Module: parameters, buffers and submodules are found in their own dicts."""

    value: torch.nn.Module

    def describe(self) -> str:
        return f"UnspecializedNNModuleVariable({self.cls.__name__})"

    def _fallback(self, tracer: Tracer, name: str) -> VariableTracker:
        getter = self.on_class(tracer, "__getattr__")
        if getter is not GETTER and isinstance(getter, types.FunctionType):
            return tracer.call(tracer.wrap(getter, self._class_source("__getattr__")), [self, ConstantVariable(name)])
        # ``nn.Module.__getattr__``, without tracing its Python: the three dicts in its order.
        member = self.member(tracer, name)
        if member is None:
            self.missing(tracer, name)
        return member

    def _guard_absence(self, tracer: Tracer, source: Source, name: str) -> None:
        # A member that the traced code removed existed before, and is guarded already.
        if not self.is_new() and any(name in (self.value.__dict__.get(store) or {}) for store in STORES):
            return
        # One guard, whose predicate reads the real object: it searches all dicts, as nn.Module does.
        if class_lookup(self.cls, "__getattr__") is GETTER and not self.has_new_class:
            tracer.guard(source, GuardKind.HASATTR, (name, False))
            return
        super()._guard_absence(tracer, source, name)
        for store in STORES:
            tracer.guard(AttrSource(source, store), GuardKind.DICT_CONTAINS, (name, False))

    def member(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """A parameter, buffer or submodule."""
        for store in STORES:
            # A dict that the traced code replaced or changed is searched first.
            changed = self._changed_store(tracer, store)
            if changed is not None:
                if name in changed.entries:
                    return changed.get_item(tracer, ConstantVariable(name))
                continue
            members = {} if self.is_new() else self.value.__dict__.get(store) or {}
            # By its own source below the dict: a guard on a parameter does not depend on attribute look-up.
            if name in members:
                source = None if self.source is None else ItemSource(AttrSource(self.source, store), name)
                return tracer.wrap(members[name], source)
        return None

    def _changed_store(self, tracer: Tracer, store: str) -> DictVariable | None:
        """``_parameters`` (or the like) where the traced code replaced or changed it."""
        stored = tracer.side_effects.attribute(self, store)
        if stored is None and not self.is_new():
            stored = tracer.side_effects.known(self.value.__dict__.get(store))
        if not isinstance(stored, DictVariable) or not (stored.changed or stored.source is None):
            return None
        if self.source is not None and stored.source not in (None, AttrSource(self.source, store)):
            tracer.guard(AttrSource(self.source, store), GuardKind.OBJECT_ALIASING, stored.source)  # another name of it
        return stored

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        setter = self.on_class(tracer, "__setattr__")
        if setter is not torch.nn.Module.__setattr__:
            super().set_attribute(tracer, name, value)
        # ``self.weight = Parameter(...)`` registers it: by tracing ``Module.__setattr__`` itself.
        elif self._is_member(tracer, name, value):
            self._trace_own(tracer, torch.nn.Module.__setattr__, ConstantVariable(name), value)
        else:
            self.plain_set_attribute(tracer, name, value)

    def _is_member(self, tracer: Tracer, name: str, value: VariableTracker) -> bool:
        """True if storing the value is more than storing an attribute."""
        if issubclass(value.python_type(), (torch.nn.Module, torch.nn.Parameter, torch.nn.Buffer)):
            return True
        stores = [self._changed_store(tracer, store) for store in STORES]
        real = [] if self.is_new() else [self.value.__dict__.get(store) or {} for store in STORES]
        return any(each is not None and name in each.entries for each in stores) or any(name in each for each in real)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if self.on_class(tracer, "__delattr__") is torch.nn.Module.__delattr__:
            self._trace_own(tracer, torch.nn.Module.__delattr__, ConstantVariable(name))
        else:
            super().delete_attribute(tracer, name)

    def _trace_own(self, tracer: Tracer, function: object, *arguments: VariableTracker) -> None:
        # The real body is traced, so that parameters, buffers and submodules are stored as by nn.Module.
        tracer.call(tracer.wrap(function, None), [self, *arguments])

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # The call is replaced by a call of ``forward`` only if no function in between is overridden.
        # A GraphModule's class has a ``__call__`` of fx, which calls nn.Module's.
        known = {name: call for name, call in CALLS.items() if name != "__call__" or not _is_called_by_fx(self.cls)}
        # ``_wrapped_call_impl`` looks ``_call_impl`` up on the module, which may have one of its own.
        shadows = not self.is_new() and "_call_impl" in vars(self.value)
        if shadows or any(self.on_class(tracer, name) is not call for name, call in known.items()):
            return super().call(tracer, arguments, keywords)
        if not self.is_new() and is_unshaped(self.value):
            shape(tracer, self.value, arguments, keywords)
        # With a source, the nodes record their module (``nn_module_stack``).
        if self.source is None or self.is_new():
            return self._call(tracer, arguments, keywords)
        with tracer.output.module_calls.inside(self.value, self.source):
            return self._call(tracer, arguments, keywords)

    def _call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        self._guard_hooks(tracer)
        if any(self._hooks(tracer, name) for name in BACKWARD_HOOKS):
            raise breaks.unsupported(breaks.BACKWARD_HOOKS, self.describe(), name=self.cls.__name__)
        # With hooks the real ``_call_impl`` is traced, which runs them in order.
        if any(self._hooks(tracer, name) for name in HOOKS):
            implementation = tracer.wrap(torch.nn.Module._call_impl, None)
            return tracer.call(implementation, [self, *arguments], keywords)
        forward = self.get_attribute(tracer, "forward")
        tracer.hand_over(self, forward)
        return tracer.call(forward, arguments, keywords)

    def _guard_hooks(self, tracer: Tracer) -> None:
        """Guard the numbers of hooks: global ones always, the module's if it has some or the settings require it."""
        every = torch.nn.modules.module
        for name in GLOBAL_HOOKS:
            source: Source = AttrSource(ModuleSource(every.__name__), name)
            tracer.guard(source, GuardKind.DICT_LENGTH, len(getattr(every, name)))
        watched = has_hooks(self.value) if not self.is_new() else False
        if self.source is not None and not self.is_new() and (watched or not config.skip_nnmodule_hook_guards):
            for name in HOOKS:
                tracer.guard(AttrSource(self.source, name), GuardKind.DICT_LENGTH, len(getattr(self.value, name)))

    def _hooks(self, tracer: Tracer, name: str) -> bool:
        """True if the module, or every module, has hooks of a kind."""
        if getattr(torch.nn.modules.module, f"_global{name}"):
            return True
        changed = self._changed_store(tracer, name)
        if changed is not None:
            return bool(changed.entries)
        return not self.is_new() and bool(getattr(self.value, name, None))

    def truth(self, tracer: Tracer) -> bool:
        return (
            super().truth(tracer)
            if self.has_special(tracer, "__len__") or self.has_special(tracer, "__bool__")
            else True
        )


def has_hooks(module: torch.nn.Module) -> bool:
    """True if calling the module runs more than its ``forward``."""
    return any(getattr(module, name, None) for name in HOOKS) or has_global_hooks()


def has_global_hooks() -> bool:
    """True if calling any module runs more than its ``forward``."""
    return any(getattr(torch.nn.modules.module, name) for name in GLOBAL_HOOKS)


def _is_called_by_fx(cls: type) -> bool:
    """Return whether the ``__call__`` of a class is that of a GraphModule, which prints where its code raises."""
    if (
        not issubclass(cls, torch.fx.GraphModule)
        or getattr(vars(cls).get("_wrapped_call"), "cls_call", cls) is not None
    ):
        return False
    # It calls what the class that it derives from has, which may be a function of the program.
    return next(vars(base)["__call__"] for base in cls.__mro__[1:] if "__call__" in vars(base)) is CALLS["__call__"]
