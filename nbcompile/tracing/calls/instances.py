"""Answers to isinstance about values that are no Python objects here: tensors, and samples for classes that ask.

    isinstance(x, torch.FloatTensor)      by the type of the fake tensor
    isinstance(3.5, HasScale)             a protocol with attributes looks at a value: any float does

In torch: BuiltinVariable.call_isinstance in torch/_dynamo/variables/builtin.py. Read next: builtins.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker, realise
from nbcompile.tracing.variables.lookup import MISSING
from nbcompile.tracing.variables.tensor import TensorVariable


def sample(value: VariableTracker) -> object:
    """A value of the same class with the same attributes; protocols look at those. MISSING where none is at hand."""
    if isinstance(value, LazyVariable):
        return value.value
    if value.is_constant():
        return value.constant()
    cls = value.python_type()
    return cls() if cls in (int, float, bool, list, tuple, dict, set, frozenset) else MISSING


MARKS: dict[type, str] = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}
"""Attribute that ``isinstance`` reads of a tensor of another class: ``nn.Parameter(t)`` of a subclass marks t itself.
"""


def is_marked(tracer: Tracer, value: VariableTracker, cls: type) -> bool:
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


def is_tensor_instance(tracer: Tracer, value: TensorVariable, classes: Sequence[type]) -> bool:
    """True if a tensor is an instance of one of the classes."""
    example = value.example
    for cls in classes:
        if cls is torch.nn.Parameter or cls is torch.nn.Buffer:
            if issubclass(value.cls, cls) or is_marked(tracer, value, cls):
                return True
        elif cls.__module__ == "torch" and cls.__name__.endswith("Tensor") and cls is not torch.Tensor:
            if example.type() == f"torch.{cls.__name__}":
                return True
        elif _has_class(value, cls):
            return True
    return False


def _has_class(value: TensorVariable, cls: type) -> bool:
    """True if a tensor is an instance of a class that is none of torch's; a protocol may name attributes."""
    if getattr(cls, "_is_protocol", False):
        return isinstance(value.example, cls)
    return issubclass(value.cls, cls)
