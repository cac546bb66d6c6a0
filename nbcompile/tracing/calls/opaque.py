"""A call that is one node of the graph, with any arguments and results.

    @nbcompile.nonstrict_trace
    def g(model, pair): ...            node flat_apply_capture(weight, bias, first, second)

The arguments are flattened into tensors, which are the node's inputs, and other
values, which are constants; a module is flattened into its parameters and buffers.
When the node runs, the arguments are unflattened. The result is flattened in the
same way.

In torch: torch/_higher_order_ops/flat_apply.py. Read next: annotations.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.functions import BaseFunctionVariable
from nbcompile.tracing.variables.known_callables import OperatorVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

Build = Callable[[Any], object]
"""Function that unflattens a value from all the leaves."""


@dataclass(slots=True)
class _ResultLayout:
    """Layout of a result: how it is rebuilt from the trackers of its tensors; None until the function has run."""

    rebuild: Callable[[Tracer, list[VariableTracker]], VariableTracker] | None = None


class _UnsupportedOutput(Exception):
    """Error for a result that cannot be flattened."""


def opaque_call(
    tracer: Tracer, function: Callable[..., Any], name: str, arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    """Call a function as one node of the graph."""
    # The function takes Python values, the node takes tensors. So each argument is flattened into leaves, and
    # ``target``, which the node calls, unflattens it.
    leaves: list[VariableTracker] = []
    build = [taken_apart(tracer, each, leaves) for each in arguments]
    build_named = {key: taken_apart(tracer, each, leaves) for key, each in keywords.items()}
    returned = _ResultLayout()

    # Called once on fakes while tracing, and in each run of the graph.
    def target(*values: Any) -> tuple[Any, ...]:
        with torch_internals.parameters_set(values, modules), torch_internals.real_tensors_allowed():
            result = function(
                *(make(values) for make in build), **{key: make(values) for key, make in build_named.items()}
            )
        # The result is flattened as well: the node returns a flat tuple, and ``rebuild`` creates its trackers.
        outputs: list[Any] = []
        returned.rebuild = _described(result, outputs)
        return tuple(outputs)

    # A module's parameters are inputs of the node, so that gradients reach them, and are set for the time of the call.
    modules = [each for make in (*build, *build_named.values()) for each in getattr(make, "modules", ())]
    target.__name__ = target.__qualname__ = name
    target.__module__ = __name__
    node = _node(tracer, target, [each.proxy() for each in leaves])
    outputs = []
    for index in range(len(node.meta[EXAMPLE])):
        item = tracer.output.apply("call_function", operator.getitem, (node, index), {})
        outputs.append(tracer.result(item))
    assert returned.rebuild is not None
    return returned.rebuild(tracer, outputs)


def _node(tracer: Tracer, target: Callable[..., object], leaves: list[object]) -> torch.fx.Node:
    try:
        return tracer.output.apply("call_function", target, leaves, {})
    except _UnsupportedOutput as error:
        raise breaks.unsupported(breaks.NONSTRICT_OUTPUT, str(error), name=error) from None


# -- arguments -------------------------------------------------------------------------------


def taken_apart(tracer: Tracer, argument: VariableTracker, leaves: list[VariableTracker]) -> Build:
    """Flatten an argument: add its tensors to ``leaves``, and return the function that unflattens it."""
    tracker = realise(tracer, argument)
    match tracker:
        case TensorVariable() | SymbolicVariable():
            leaves.append(tracker)
            return operator.itemgetter(len(leaves) - 1)
        case OperatorVariable():
            return lambda _: tracker.value
        case BaseFunctionVariable() if hasattr(tracker, "function"):
            return lambda _: tracker.function
        # Before ObjectVariable, its base class: an existing module is not flattened,
        # only its tensors are inputs.
        case NNModuleVariable() if not tracker.is_new():
            return _module(tracer, tracker, leaves)
        case ObjectVariable():
            return _object(tracer, tracker, leaves)
        case SequenceVariable():
            return _container(tracer, tracker.python_type(), tracker.unpack(tracer), leaves)
        case DictVariable():
            keys = [key.constant() for key in tracker.keys(tracer)]
            parts = [taken_apart(tracer, each, leaves) for each in tracker.values(tracer)]
            return lambda values: dict(zip(keys, (part(values) for part in parts), strict=True))
    if tracker.is_constant():
        value = tracker.constant()
        return lambda _: value
    raise _unsupported_input(tracker)


def _container(tracer: Tracer, cls: type, items: list[VariableTracker], leaves: list[VariableTracker]) -> Build:
    parts = [taken_apart(tracer, each, leaves) for each in items]
    if hasattr(cls, "_fields"):
        return lambda values: cls(*(part(values) for part in parts))
    return lambda values: cls([part(values) for part in parts])


def _module(tracer: Tracer, tracker: NNModuleVariable, leaves: list[VariableTracker]) -> Build:
    """Flatten a module, which is a constant, into its parameters and buffers, which are inputs of the node."""
    positions: dict[str, int] = {}
    for name in torch_internals.module_tensors(tracker.value):
        owner: VariableTracker = tracker
        for part in name.split("."):
            owner = realise(tracer, owner.get_attribute(tracer, part))
        positions[name] = len(leaves)
        leaves.append(owner)

    def build(_: Any) -> object:
        return tracker.value

    build.modules = [(tracker.value, positions)]  # type: ignore[attr-defined]
    return build


def _object(tracer: Tracer, tracker: ObjectVariable, leaves: list[VariableTracker]) -> Build:
    """An object of a class that is registered as a pytree."""
    known = torch_internals.pytree_node(tracker.cls)
    if known is None:
        raise _unsupported_input(tracker)
    if known.constant:
        if tracker.is_new():
            raise _unsupported_input(tracker)
        return lambda _: tracker.value
    if known.fields is not None:
        named = {name: taken_apart(tracer, tracker.get_attribute(tracer, name), leaves) for name in known.fields}
        return lambda values: tracker.cls(**{name: part(values) for name, part in named.items()})
    children, context = tracer.call(tracer.wrap(known.flatten, None), [tracker]).unpack(tracer)
    parts = [taken_apart(tracer, each, leaves) for each in realise(tracer, children).unpack(tracer)]
    # The context is data without tensors, so it can be built now.
    kept = taken_apart(tracer, context, [])(())
    return lambda values: known.unflatten([part(values) for part in parts], kept)


def _unsupported_input(tracker: VariableTracker) -> breaks.Unsupported:
    return breaks.unsupported(breaks.NONSTRICT_INPUT, tracker.describe(), name=tracker.type_name())


# -- results ---------------------------------------------------------------------------------

Rebuild = Callable[[Tracer, list[VariableTracker]], VariableTracker]


def _described(value: Any, leaves: list[Any]) -> Rebuild:
    """Function that rebuilds the tracker of a result from those of its tensors, which are appended to ``leaves``."""
    if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        leaves.append(value)
        index = len(leaves) - 1
        return lambda _, results: results[index]
    if value is None or isinstance(value, (int, float, bool, str, complex, torch.dtype, torch.device)):
        return lambda tracer, _: tracer.constant_or_wrap(value)
    if type(value) is list or isinstance(value, tuple):
        parts = [_described(each, leaves) for each in value]
        if type(value) is list:
            return lambda tracer, results: ListVariable([part(tracer, results) for part in parts])
        return lambda tracer, results: TupleVariable([part(tracer, results) for part in parts], cls=type(value))
    if type(value) is dict:
        named = {key: _described(each, leaves) for key, each in value.items()}
        return lambda tracer, results: DictVariable(
            tracer, [(tracer.constant_or_wrap(key), part(tracer, results)) for key, part in named.items()]
        )
    return _described_object(value, leaves)


def _described_object(value: Any, leaves: list[Any]) -> Rebuild:
    known = torch_internals.pytree_node(type(value))
    if known is None:
        raise _UnsupportedOutput(type(value).__name__)
    if known.constant:
        return lambda tracer, _: tracer.wrap(value, tracer.keep(value, type(value).__name__))
    if known.fields is not None:
        named = {name: _described(getattr(value, name), leaves) for name in known.fields}
        return lambda tracer, results: tracer.call(
            tracer.wrap(type(value), None), [], {name: part(tracer, results) for name, part in named.items()}
        )
    children, context = known.flatten(value)
    parts = [_described(each, leaves) for each in children]
    return lambda tracer, results: tracer.call(
        tracer.wrap(known.unflatten, None),
        [tracer.list_of([part(tracer, results) for part in parts]), tracer.constant_or_wrap(context)],
    )
