"""Higher-order operators, whose arguments are functions: torch.cond, torch.while_loop, checkpoint, ...

    torch.cond(p, f, g, (x,))      get_attr cond_true_0 ; get_attr cond_false_0 ; cond(p, .., .., (l_x_, ...))
    checkpoint(f, x)               get_attr wrap_body_0 ; tag_activation_checkpoint(.., l_x_)

Each function is traced into a body (bodies.py). If a function cannot be traced as a
whole, most of these operators raise an error; a checkpoint only breaks the graph.

In torch: torch/_dynamo/variables/higher_order_ops.py. Read next: regions.py, autograd.py
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.fx
import torch.utils.checkpoint

from nbcompile import errors
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.support.error_handler import ErrorReplacement
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.bodies import (
    TracedBody,
    body_example,
    call,
    inputs,
    leaves,
    rebuilt,
    structure,
    trace_body,
)
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.graph.body import Body
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.known_callables import Handler, KnownCallable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

OPERATORS = torch.ops.higher_order


def capturing_whole(tracer: Tracer) -> ErrorReplacement:
    """Trace for an operator that exists only in a graph: a graph break is an error."""

    def unsupported_body(error: breaks.Unsupported | ObservedException) -> NoReturn:
        if isinstance(error, breaks.Unsupported):
            message = "\n".join(filter(None, (error.kind.title, error.explanation(), error.context)))
            error.stack = error.stack or tracer.stack()
            raise errors.UncapturedHigherOrderOpError(message, error.stack, error) from None
        raise errors.UncapturedHigherOrderOpError(error.value.describe(), tracer.stack()) from None

    return ErrorReplacement((breaks.Unsupported, ObservedException), unsupported_body)


def captured_whole(name: str) -> Callable[[Handler], Handler]:
    """Decorator for the handler of an operator that exists only in a graph; keywords are passed by position."""

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def strict(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
            with capturing_whole(tracer):
                given = [realise(tracer, each) for each in (*arguments, *keywords.values())]  # all of them in order
                return handler(tracer, given, {})

        return strict

    return decorate


def _misuse(name: str, problem: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.BODY_MISUSE, "", name=name, problem=problem)


# -- checkpoint ------------------------------------------------------------------------------

_CHECKPOINT_SETTINGS = frozenset(inspect.signature(torch.utils.checkpoint.checkpoint).parameters) | {
    "preserve_rng_state"
}


@handles(torch.utils.checkpoint.checkpoint)
def _checkpoint(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    settings = {name: realise(tracer, each) for name, each in keywords.items() if name in _CHECKPOINT_SETTINGS}
    rest = {name: each for name, each in keywords.items() if name not in _CHECKPOINT_SETTINGS}
    make_contexts = settings.pop("context_fn", None)
    # The body is a graph of its own, called through an operator, so that the backward can run it once more instead of
    # keeping its intermediate results.
    traced = trace_body(tracer, arguments[0], arguments[1:], rest)
    node = tracer.output.install("wrap_body", traced.body)
    if make_contexts is not None:  # called when the graph is differentiated, and not traced
        node.meta[EXAMPLE].meta["_checkpoint_context_fn"] = _real_value(tracer, make_contexts)
    known = {name: each.constant() for name, each in settings.items()}
    target = OPERATORS.tag_activation_checkpoint
    return call(tracer, target, (node, *traced.body.lifted), traced, known, body_example(traced))


def _real_value(tracer: Tracer, tracker: VariableTracker) -> Any:
    """The value of a tracker, if no part of it is computed by the graph."""
    match realise(tracer, tracker):
        case PartialVariable() as partial:
            given = [_real_value(tracer, each) for each in partial.arguments.unpack(tracer)]
            named = {name: _real_value(tracer, value) for name, (_, value) in partial.named(tracer).items()}
            return functools.partial(_real_value(tracer, partial.function), *given, **named)
        case SequenceVariable() as sequence:
            return sequence.cls(_real_value(tracer, each) for each in sequence.unpack(tracer))
        case FunctionVariable(function=known) | KnownCallable(value=known):
            return known
        case other if other.is_constant():
            return other.constant()
        case other:
            raise _misuse("torch.utils.checkpoint.checkpoint", f"context_fn contains a {other.type_name()}")


# -- control flow ----------------------------------------------------------------------------


@handles(OPERATORS.cond)
@captured_whole("torch.cond")
def _cond(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition, if_true, if_false, operands = arguments
    if condition.is_constant():  # one of the branches, unchanged
        return tracer.call(if_true if condition.constant() else if_false, operands.unpack(tracer))
    if not isinstance(condition, (TensorVariable, SymbolicVariable)):
        raise _misuse("torch.cond", f"the condition is a {condition.type_name()}")
    given = operands.unpack(tracer)
    # Each branch is traced from the same state into its own graph. The operator is one node, so both must return
    # tensors of the same structure, and take the same inputs in the same order.
    true, false = (_branch(tracer, each, given) for each in (if_true, if_false))
    if structure(tracer, true.result) != structure(tracer, false.result):
        raise _misuse("torch.cond", "the branches return different structures")
    shared = _same_inputs(tracer, true.body, false.body)
    nodes = (tracer.output.install("cond_true", true.body), tracer.output.install("cond_false", false.body))
    return _call_flat(tracer, OPERATORS.cond, (condition.proxy(), *nodes, shared), true.result)


def _branch(tracer: Tracer, function: VariableTracker, operands: Arguments) -> TracedBody:
    traced = trace_body(tracer, function, operands, flat=True)
    _check_pure(traced.body, "torch.cond")
    for output in traced.outputs:
        if output.is_constant() and not isinstance(output.constant(), int):
            raise _misuse("torch.cond", f"a branch returns {output.constant()!r}")
    return traced


def _check_pure(body: Body, name: str) -> None:
    if torch._C.is_grad_enabled() and body.changes_inputs():
        raise breaks.unsupported(breaks.BODY_WRITES, name, name=name)
    if torch._C.is_grad_enabled() and body.shares_memory():
        raise breaks.unsupported(breaks.BODY_ALIAS, name, name=name)


def _same_inputs(tracer: Tracer, one: Body, other: Body) -> tuple[torch.fx.Node, ...]:
    """Give both bodies the same inputs: values that both use, then those that only one uses, by name."""
    # An order that does not depend on which graph was traced first.
    in_both = [node for node in one.lifted if node in other.lifted]
    only_one = [node for node in one.lifted if node not in other.lifted]
    only_other = [node for node in other.lifted if node not in one.lifted]
    order = [each for part in (in_both, only_one, only_other) for each in sorted(part, key=lambda node: node.name)]
    for body in (one, other):
        _take(body, order)
    return tuple(order)


def _take(body: Body, order: Sequence[torch.fx.Node]) -> None:
    """Give a body exactly these lifted inputs, after its other inputs."""
    first = next(node for node in body.graph.nodes if node.op != "placeholder")
    with body.graph.inserting_before(first):
        for outer in order:
            fresh = body.graph.placeholder(outer.name)
            fresh.meta[EXAMPLE] = outer.meta[EXAMPLE]
            # The body has an input for this value already: its users move to the new one, so that all
            # inputs are in order.
            if outer in body.lifted:
                body.lifted[outer].replace_all_uses_with(fresh)
                body.graph.erase_node(body.lifted[outer])
            body.lifted[outer] = fresh


def _call_flat(tracer: Tracer, target: object, arguments: Sequence[object], result: VariableTracker) -> VariableTracker:
    """Add the operator's node, run on fake values; return its results in the structure that the functions return."""
    node = tracer.output.apply("call_function", target, arguments, {})  # type: ignore[arg-type]
    fresh = tracer.result(node).unpack(tracer)
    return rebuilt(tracer, result, iter(fresh))


@handles(OPERATORS.while_loop)
@captured_whole("torch.while_loop")
def _while_loop(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition, step, operands, additional = arguments
    carried = [realise(tracer, each) for each in operands.unpack(tracer)]
    extra = [realise(tracer, each) for each in additional.unpack(tracer)]
    if not all(isinstance(each, TensorVariable) for each in carried):
        raise _misuse("torch.while_loop", "all carried values must be tensors")
    test = _loop_body(tracer, condition, [*carried, *extra])
    if test.result.is_constant():
        if test.result.constant():
            raise _misuse("torch.while_loop", "the condition is always true")
        return operands
    # Both bodies run on other values in each iteration: each carried tensor is an input, also of a body without a use.
    body = _loop_body(tracer, step, [*carried, *extra])
    shared = _same_inputs(tracer, test.body, body.body)
    nodes = (tracer.output.install("cond_fn", test.body), tracer.output.install("body_fn", body.body))
    given = tuple(each.proxy() for each in carried)
    more = (*(each.proxy() for each in extra), *shared)
    return _call_flat(tracer, OPERATORS.while_loop, (*nodes, given, more), body.result)


def _loop_body(tracer: Tracer, function: VariableTracker, arguments: Arguments) -> TracedBody:
    body = tracer.output.new_body()
    traced = trace_body(tracer, function, inputs(body, arguments), body=body, flat=True)
    if isinstance(traced.result, TensorVariable):  # a condition: the graph returns it itself
        (output,) = body.graph.find_nodes(op="output")
        output.args = tuple(output.args[0])
    return traced


def _sliced(tracer: Tracer, tensors: Arguments) -> list[VariableTracker]:
    """First slice of each tensor, on which the functions are traced; no such slice stays in the graph."""
    # In a body that is discarded: the node of ``select`` is needed only for its example.
    with tracer.output.inside(tracer.output.new_body()):
        return [tracer.apply_method("select", [each, ConstantVariable(0), ConstantVariable(0)]) for each in tensors]


@handles(OPERATORS.map_impl)
@captured_whole("torch.ops.higher_order.map_impl")
def _map(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function, over, constant = arguments
    sequences, given = list(leaves(tracer, over)), list(leaves(tracer, constant))
    body = tracer.output.new_body()
    traced = trace_body(tracer, function, inputs(body, [*_sliced(tracer, sequences), *given]), body=body, flat=True)
    node = tracer.output.install("map_body", body)
    mapped = [each.proxy() for each in sequences]
    more = [*(each.proxy() for each in given), *body.lifted]
    return _call_flat(tracer, OPERATORS.map_impl, (node, mapped, more), traced.result)


@handles(OPERATORS.scan)
@captured_whole("torch.ops.higher_order.scan")
def _scan(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    combine, initial, over, additional = arguments
    carried, sequences, extra = (list(leaves(tracer, each)) for each in (initial, over, additional))
    body = tracer.output.new_body()
    given = inputs(body, [*carried, *_sliced(tracer, sequences), *extra])
    traced = trace_body(tracer, combine, given, body=body, flat=True)
    node = tracer.output.install("scan_combine_fn", body)
    more = [*(each.proxy() for each in extra), *body.lifted]
    lists = [[each.proxy() for each in part] for part in (carried, sequences)]
    return _call_flat(tracer, OPERATORS.scan, (node, *lists, more), traced.result)


@handles(OPERATORS.associative_scan)
@captured_whole("torch.ops.higher_order.associative_scan")
def _associative_scan(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    combine, over, additional = arguments
    sequences, extra = list(leaves(tracer, over)), list(leaves(tracer, additional))
    body = tracer.output.new_body()
    # An associative function takes two elements; both are traced as the first slice.
    slices = _sliced(tracer, sequences)
    traced = trace_body(tracer, combine, inputs(body, [*slices, *slices, *extra]), body=body, flat=True)
    node = tracer.output.install("associative_scan_combine_fn", body)
    more = (*(each.proxy() for each in extra), *body.lifted)
    listed = [each.proxy() for each in sequences]
    return _call_flat(tracer, OPERATORS.associative_scan, (node, listed, more), traced.result)
