"""Operators that only call their function argument: wrap, strict_mode, hints_wrapper, nested regions.

    wrap(f, x)                        get_attr wrap_body_0 ; wrap(.., l_x_) ; getitem 0
    nested_compile_region(f)(x)       get_attr subgraph_0 ; invoke_subgraph(.., "subgraph_0", l_x_) ; getitem 0

They compute what the function computes; a backend sees which operators belong together. Calls of a nested region with
equal graphs share one.

In torch: WrapHigherOrderVariable, StrictModeHigherOrderVariable, HintsWrapperHigherOrderVariable, BaseHOPVariable in
torch/_dynamo/variables/higher_order_ops.py; torch/_dynamo/variables/invoke_subgraph.py. Read next:
nbcompile/capture/nested_regions.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.base_hop import BaseHOP

from nbcompile.capture import nested_regions
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.bodies import TracedBody, body_example, call, rebuilt, trace_body
from nbcompile.tracing.calls.higher_order import OPERATORS, capturing_whole
from nbcompile.tracing.calls.registry import handles, handles_instances, handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.known_callables import KnownCallable
from nbcompile.tracing.variables.mappings import DictVariable


@handles(OPERATORS.wrap)
def _wrap(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    traced = trace_body(tracer, arguments[0], arguments[1:], keywords)
    node = tracer.output.install("wrap_body", traced.body)
    return call(tracer, OPERATORS.wrap, (node, *traced.body.lifted), traced, example=body_example(traced))


@handles(OPERATORS.strict_mode)
def _strict_mode(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function, operands = arguments
    with capturing_whole(tracer):
        traced = trace_body(tracer, function, realise(tracer, operands).unpack(tracer), flat=True)
        node = tracer.output.install("strict_mode_body", traced.body)
        given: Any = (node, tuple(traced.body.lifted))
        called = tracer.output.apply("call_function", OPERATORS.strict_mode, given, {}, body_example(traced))
        return rebuilt(tracer, traced.result, iter(tracer.result(called).unpack(tracer)))


@handles(OPERATORS.hints_wrapper)
def _hints_wrapper(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function, operands, named, hints = (*arguments, *keywords.values())
    with capturing_whole(tracer):
        if realise(tracer, named).unpack(tracer):
            raise _misuse("hints_wrapper", "the function is given keywords")
        traced = trace_body(tracer, function, realise(tracer, operands).unpack(tracer))
        node = tracer.output.install("hints_wrapper_body", traced.body)
        given: Any = (node, tuple(traced.body.lifted), {})
        known = {"hints": _constants(tracer, hints)}
        return call(tracer, OPERATORS.hints_wrapper, given, traced, known, body_example(traced))


def _constants(tracer: Tracer, tracker: VariableTracker) -> dict[object, object]:
    """The value of a dict of constants."""
    mapping = realise(tracer, tracker)
    if not isinstance(mapping, DictVariable):
        raise _misuse("hints_wrapper", f"the hints are a {mapping.type_name()}")
    return {key.constant(): realise(tracer, value).constant() for key, value in mapping.entries.values()}


@handles(OPERATORS.out_dtype)
def _out_dtype(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    overload, *rest = (realise(tracer, argument) for argument in (*arguments, *keywords.values()))
    if not isinstance(overload, KnownCallable):
        raise _misuse("out_dtype", f"the operator is a {overload.type_name()}")
    given: Any = (overload.value, *(argument.proxy() for argument in rest))
    return tracer.result(tracer.output.apply("call_function", OPERATORS.out_dtype, given, {}))


@handles_instances(BaseHOP)
def _subgraph_operator(target: BaseHOP, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """One of the operators that keep a function as a graph for the backend; keywords are the operator's own."""
    traced = trace_body(tracer, arguments[0], arguments[1:])
    _check_memory(traced, target.name(), may_write=False)
    node = tracer.output.install("subgraph", traced.body)
    known = {name: realise(tracer, value).proxy() for name, value in keywords.items()}
    return call(tracer, target, (node, *traced.body.lifted), traced, known, body_example(traced))


# -- nested regions ----------------------------------------------------------------------------------------------------


@handles_named("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder")
def _nested_region(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    with capturing_whole(tracer):
        body = tracer.output.new_body(may_change=True)
        traced = trace_body(tracer, arguments[0], arguments[1:], keywords, body=body)
        _check_memory(traced, "torch.compiler.nested_compile_region", may_write=True)
    node = _installed_once(tracer, traced)
    given = (node, str(node.target), *traced.body.lifted)
    return call(tracer, nested_regions.INVOKE, given, traced, example=body_example(traced))


def _installed_once(tracer: Tracer, traced: TracedBody) -> torch.fx.Node:
    """The node of the region's graph: an equal one that is installed already, or its own."""
    # The newest first: layers in a row call one region, and a model has many.
    for name, module in reversed(tracer.output.modules.items()):
        if name.startswith("subgraph_") and nested_regions.are_equal(module.graph, traced.body.graph):
            return tracer.output.installed(name)
    return tracer.output.install("subgraph", traced.body)


def _check_memory(traced: TracedBody, name: str, *, may_write: bool) -> None:
    if not may_write and traced.body.changes_inputs():
        raise breaks.unsupported(breaks.BODY_WRITES, name, name=name)
    if traced.body.shares_memory():
        raise breaks.unsupported(breaks.BODY_ALIAS, name, name=name)


def _misuse(name: str, problem: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.BODY_MISUSE, "", name=name, problem=problem)
