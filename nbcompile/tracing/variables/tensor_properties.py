"""Properties of an input tensor beyond TENSOR_MATCH: read from the real tensor, and guarded.

    x.is_leaf, x.retains_grad                     L['x'].is_leaf is True
    x.is_shared(), x.is_pinned(), x._is_view()    L['x'].is_shared() is False
    x.grad_fn is None                             L['x'].grad_fn is None
    x._base, x.name, x.output_nr                  L['x']._base is None, L['x'].output_nr == 0

A fake tensor has no memory, and no effect of the program's retain_grad(), so these are read from the tensor of the
call. A result of an in-place method on an input is the input itself, and a view shares an input's memory; their
properties depend on the input's.

In torch: read from the fake tensor, without a guard. Read next: nbcompile/tracing/variables/tensor_methods.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.fx

from nbcompile.capture.guard import GuardKind, tensor_property
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.lookup import class_lookup, instance_dict, is_data_descriptor

OF_MEMORY = frozenset(("is_shared", "is_pinned"))
"""Properties that a view shares with its base; others belong to one tensor object."""
OF_FAKE = frozenset(("is_leaf", "_is_view"))
"""Properties of a fake tensor that equal the real one's, and that the traced program may change."""


def known_property(tracer: Tracer, example: torch.Tensor, name: str) -> bool:
    """The value of ``example.name``; if it depends on an input, the input's property is guarded."""
    source = input_of(tracer, example, in_memory_of if name in OF_MEMORY else is_same_object)
    if source is None:
        return tensor_property(example, name)
    real = tracer.real_value(source)
    assert isinstance(real, torch.Tensor)
    try:
        answer = tensor_property(real, name)
    except (RuntimeError, NotImplementedError) as error:  # a subclass that has no memory of its own
        raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, str(error), name=name, type=type(real).__name__) from error
    tracer.guard(source, GuardKind.TENSOR_PROPERTY, (name, answer))
    return tensor_property(example, name) if name in OF_FAKE else answer


def known_constant(tracer: Tracer, example: torch.Tensor, name: str) -> int | str | None:
    """The value of ``example.name``, a constant or None; for an input it is that of the call, and guarded."""
    source = input_of(tracer, example, is_same_object)
    answer = getattr(example if source is None else tracer.real_value(source), name)
    if not isinstance(answer, int | str | None) or (name == "output_nr" and _is_written_to(tracer, example, source)):
        raise _untraced(name)
    if source is not None:
        kind = GuardKind.NONE_MATCH if answer is None else GuardKind.EQUALS_MATCH
        tracer.guard(AttrSource(source, name), kind, answer)
    return answer


def computed_base(tracer: Tracer, example: torch.Tensor) -> torch.fx.Node | None:
    """The node of the graph whose value is the base of a view; None if no node computes it."""
    base = None if input_of(tracer, example, in_memory_of) is not None else example._base
    if base is None:
        return None
    return next((node for node in tracer.output.graph.nodes if node.meta.get(EXAMPLE) is base), None)


def _is_written_to(tracer: Tracer, example: torch.Tensor, source: Source | None) -> bool:
    """Return whether the traced code wrote to an input, or detached it: then its value is an operator's result."""
    if source is None:
        return False
    real = tracer.real_value(source)
    assert isinstance(real, torch.Tensor)
    writes = 0 if example.is_inference() else example._version
    return bool(writes) or example.requires_grad != real.requires_grad


def known_version(tracer: Tracer, example: torch.Tensor, name: str) -> int:
    """The number of writes to a tensor that the graph computes.

    A fake tensor counts them as the real one does, from 0. The number of earlier writes to an input differs from call
    to call, so the graph breaks for an input.
    """
    # An inference tensor has no version counter.
    if input_of(tracer, example, in_memory_of) is not None or example.is_inference():
        raise _untraced(name)
    return example._version


def _untraced(name: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.UNSUPPORTED_ATTRIBUTE, f"TensorVariable().{name}", attribute=name, name="Tensor")


GUARDED_ATTRIBUTES: Mapping[str, Callable[[Tracer, torch.Tensor, str], int | str | None]] = {
    "is_leaf": known_property,
    "retains_grad": known_property,
    "_version": known_version,
    **dict.fromkeys(("_base", "name", "output_nr", "volatile"), known_constant),
}
"""Attributes that no guard on a tensor implies, with the functions that read them."""


def guard_no_grad_fn(tracer: Tracer, example: torch.Tensor) -> None:
    """Guard that autograd recorded nothing for a tensor, if it is an input."""
    source = input_of(tracer, example, is_same_object)
    if source is not None:
        tracer.guard(AttrSource(source, "grad_fn"), GuardKind.NONE_MATCH, None)


def input_of(
    tracer: Tracer, example: torch.Tensor, related: Callable[[torch.Tensor, torch.Tensor], bool]
) -> Source | None:
    """Source of the input to which a fake tensor is related; None for a new tensor of the graph."""
    for node, source in tracer.output.inputs.placeholders:
        of_input = node.meta.get(EXAMPLE)
        if not isinstance(of_input, torch.Tensor) or not related(of_input, example):
            continue
        if isinstance(tracer.real_value(source), torch.Tensor):  # not a number that is passed as a tensor
            return source
    return None


def is_same_object(of_input: torch.Tensor, example: torch.Tensor) -> bool:
    """Return whether two fake tensors are one."""
    return of_input is example


def in_memory_of(of_input: torch.Tensor, example: torch.Tensor) -> bool:
    """Return whether two fake tensors share their memory; one without memory shares none."""
    if of_input is example:
        return True
    try:
        return of_input.untyped_storage()._cdata == example.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return False


def shadowing_attribute(
    tracer: Tracer, node: torch.fx.Node, source: Source | None, name: str
) -> VariableTracker | None:
    """Attribute of a tensor from outside that comes before a method of its class: ``x.sum = lambda: 4``."""
    if name.startswith("__"):  # Python looks special methods up in the class
        return None
    example = node.meta[EXAMPLE]
    if source is None and any(operand.meta.get(EXAMPLE) is example for operand in node.all_input_nodes):
        source = input_of(tracer, example, is_same_object)  # ``x.add_(1)`` is ``x``
    if source is None:
        return None
    value = tracer.real_value(source)
    members = instance_dict(value)
    if name not in members or is_data_descriptor(class_lookup(type(value), name)):
        return None
    tracer.guard(AttrSource(source, "__dict__"), GuardKind.DICT_CONTAINS, (name, True))
    return tracer.wrap(members[name], AttrSource(source, name))
