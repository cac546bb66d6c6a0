"""A tensor of a user's class, whose ``__torch_function__`` overrides functions of torch.

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None): ...

    torch.sin(x)      Logged.__torch_function__(torch.sin, (Logged,), (x,), {}), traced through

In the graph it is a plain tensor; its tracker has the class, and outputs of the graph
are converted to that class again. The graph runs with overrides disabled.

In torch: torch/_dynamo/variables/torch_function.py (TensorWithTFOverrideVariable).
Read next: nbcompile/tracing/calls/overrides.py
"""

from __future__ import annotations

import types
from typing import Any

import torch
import torch.fx

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import AttrSource, MethodFunctionSource, Source, TypeSource
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.lookup import MISSING, class_lookup, instance_dict, is_data_descriptor
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.tensor import TensorVariable, method

PLAIN: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
DISABLED: Any = torch._C._disabled_torch_function_impl
DEFAULT: Any = torch.Tensor.__torch_function__
HARMLESS = frozenset(
    "__torch_function__ __new__ __init__ __repr__ __module__ __doc__ __dict__ __slots__ __qualname__ __annotations__ "
    "__firstlineno__ __static_attributes__ __weakref__ __orig_bases__ __parameters__ __init_subclass__".split()
)
"""Special names that a class may define: none of them changes what operators do."""


def is_traceable(cls: type) -> bool:
    """True if tensors of a class can be in a graph: no dispatch of operators, no operators of its own."""
    return all(not name.startswith("__") or name in HARMLESS for each in own_classes(cls) for name in vars(each))


def own_classes(cls: type) -> list[type]:
    """The classes of the method resolution order before torch's own."""
    return [each for each in cls.__mro__[: cls.__mro__.index(torch.Tensor)] if each not in PLAIN]


def overrides(cls: type) -> bool:
    """True if the class overrides functions of torch."""
    return cls not in PLAIN and getattr(cls, "__torch_function__", DISABLED) is not DISABLED


def has_own_override(cls: type) -> bool:
    """True if the override does more than convert results to the class."""
    return overrides(cls) and cls.__torch_function__.__func__ is not DEFAULT.__func__  # type: ignore[attr-defined]


def as_class(value: torch.Tensor, cls: type) -> torch.Tensor:
    """Convert a tensor to a class."""
    return value if type(value) is cls else value.as_subclass(cls)


class SubclassVariable(TensorVariable):
    """A tensor of a user's class (or, created from one, a plain one)."""

    def __init__(self, node: torch.fx.Node, cls: type, source: Source | None = None) -> None:
        super().__init__(node, source, cls)

    def describe(self) -> str:
        return f"TensorWithTFOverrideVariable({self.cls.__name__})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        for cls in own_classes(self.cls):
            if name in vars(cls) and not name.startswith("__"):
                found = vars(cls)[name]
                shadowing = None if is_data_descriptor(found) else self._of_object(tracer, name)
                return self._own(tracer, name, found) if shadowing is None else shadowing
        found = getattr(torch.Tensor, name, MISSING)
        if found is MISSING:
            return self._custom_attribute(tracer, name)
        return super().get_attribute(tracer, name)

    def _of_object(self, tracer: Tracer, name: str) -> VariableTracker | None:
        """Attribute of the object itself, which hides one of the class that is no data descriptor."""
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None or tracer.side_effects.is_deleted(self, name) or self.source is None:
            return stored
        members = instance_dict(tracer.real_value(self.source))
        tracer.guard(AttrSource(self.source, "__dict__"), GuardKind.DICT_CONTAINS, (name, name in members))
        return tracer.wrap(members[name], AttrSource(self.source, name)) if name in members else None

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        found = next((vars(cls)[name] for cls in own_classes(self.cls) if name in vars(cls)), MISSING)
        if is_data_descriptor(found):
            raise breaks.unsupported(breaks.TENSOR_ATTRIBUTE, f"setattr({self.describe()}, {name})", name=name)
        super().set_attribute(tracer, name, value)

    def _own(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        source = None if self.source is None else MethodFunctionSource(self.source, name)
        match found:
            case types.FunctionType():
                return MethodVariable(tracer.wrap(found, source), self)
            case property():
                below = None if source is None else AttrSource(source, "fget")
                return tracer.call(tracer.wrap(found.fget, below), [self])
            case staticmethod() | classmethod():
                owner = tracer.wrap(self.cls, None if self.source is None else TypeSource(self.source))
                return owner.get_attribute(tracer, name)
        getter = class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):  # functools.cached_property, a descriptor of the program
            get = None if source is None else MethodFunctionSource(source, "__get__")
            owner = tracer.wrap(self.cls, None if self.source is None else TypeSource(self.source))
            return tracer.call(tracer.wrap(getter, get), [tracer.wrap(found, source), self, owner])
        if getter is not MISSING:
            self.no_method(name)
        return tracer.wrap(found, source)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        own = any(name in vars(each) for each in own_classes(self.cls)) and not name.startswith("__")
        if own or not hasattr(torch.Tensor, name):
            return tracer.call(self.get_attribute(tracer, name), arguments, keywords)
        return super().call_method(tracer, name, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # An input is returned as the same object, unlike the result of ``as_subclass``.
        if self.node.op == "placeholder" and self.source is not None:
            return FromSource(self.source)
        given = _input_source(reconstruction.tracer, self.node)  # read from its source: without operators no graph runs
        tensor = reconstruction.graph_output(self.node) if given is None else FromSource(given)
        arguments = (tensor, Constant(self.cls, self.cls.__name__))
        return reconstruction.shared(
            self, lambda: Call(Constant(as_class, "as_class"), arguments), lambda: reconstruction.attributes(self)
        )


def _input_source(tracer: Tracer, node: torch.fx.Node) -> Source | None:
    """Source of an input of the graph; None for a computed value."""
    return next((source for each, source in tracer.output.inputs.placeholders if each is node), None)


def as_subclass(tensor: TensorVariable, cls: object) -> VariableTracker:
    """``tensor.as_subclass(cls)``."""
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or not (cls in PLAIN or is_traceable(cls)):
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, f"as_subclass({cls})", name=getattr(cls, "__name__", cls))
    return SubclassVariable(tensor.node, cls)


@method("as_subclass")
def _as_subclass(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    (cls,) = (*arguments, *keywords.values())
    target = getattr(realise(tracer, cls), "value", None)
    if target is torch.Tensor:
        # A new tensor on the same memory. The operand is plain, so no override is called, as in eager mode.
        return tracer.apply(torch.ops.aten.alias.default, (TensorVariable(tensor.node),))
    return as_subclass(tensor, target)


def converted(tracer: Tracer, result: VariableTracker, cls: type) -> VariableTracker:
    """Result converted as ``torch.Tensor.__torch_function__`` does: tensors become tensors of the class."""
    result = realise(tracer, result)
    if isinstance(result, TensorVariable):
        return result if issubclass(result.cls, cls) else SubclassVariable(result.node, cls)
    if result.python_type() in (tuple, list):
        items = [converted(tracer, each, cls) for each in result.unpack(tracer)]
        return tracer.list_of(items) if result.python_type() is list else tracer.tuple_of(items)
    if is_record(result.python_type()):  # for example of ``sort``: a named tuple, created from a tuple
        items = [converted(tracer, each, cls) for each in result.unpack(tracer)]
        return TupleVariable(items, cls=result.python_type())
    return result


def is_record(cls: type) -> bool:
    """Return whether a class is one of torch's named result tuples, such as ``torch.return_types.sort``."""
    return issubclass(cls, tuple) and getattr(torch.return_types, cls.__name__, None) is cls
