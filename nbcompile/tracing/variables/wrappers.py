"""A tensor that wraps other tensors: a class with ``__torch_dispatch__`` and ``__tensor_flatten__``.

    class Scaled(torch.Tensor):                      x + 1     one node on the whole, not on its parts
        def __tensor_flatten__(self):                          its fake is a Scaled of fake tensors, on which the
            return ["inner"], self.scale                       class's own dispatch runs

The wrapper is an input or output of the graph; AOTAutograd flattens it. The inner
tensors and the class's metadata are guarded.

In torch: TensorVariable and TensorSubclassVariable in torch/_dynamo/variables/tensor.py.
Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import types

import torch

from nbcompile.capture.source import AttrSource, MethodFunctionSource
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.lookup import MISSING, class_lookup, instance_dict
from nbcompile.tracing.variables.tensor import TensorMethodVariable, TensorVariable


class WrapperVariable(TensorVariable):
    """A tensor that wraps others."""

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        found = class_lookup(self.cls, name)
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None:
            return stored
        if name in instance_dict(self.example):
            return self._part(tracer, name)
        own = found is MISSING or found is not class_lookup(torch.Tensor, name)
        return self._own(tracer, name, found) if own and name != "__class__" else super().get_attribute(tracer, name)

    def _own(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        below = None if self.source is None else MethodFunctionSource(self.source, name)
        match found:
            case types.FunctionType():
                return TensorMethodVariable(self, name)
            case property():
                getter = tracer.wrap(found.fget, None if below is None else AttrSource(below, "fget"))
                return tracer.call(getter, [self])
            case staticmethod() | classmethod():
                return tracer.class_attribute(tracer.wrap(self.cls, None), self.cls, name)
        return self._custom_attribute(tracer, name) if found is MISSING else tracer.wrap(found, below)

    def _part(self, tracer: Tracer, name: str) -> VariableTracker:
        """Attribute of the wrapper itself: an inner tensor, or part of its context."""
        if self.source is not None:
            real = tracer.real_value(self.source)
            if name in instance_dict(real):
                return tracer.wrap(getattr(real, name), AttrSource(self.source, name))
        held = instance_dict(self.example)[name]
        if isinstance(held, torch.Tensor):
            return tracer.result(tracer.output.apply("call_function", getattr, (self.node, name), {}))
        return tracer.constant_or_wrap(held)
