"""torch.autograd.Function: one node with a graph for forward and one for backward.

    Square.apply(x)      get_attr fwd_body_0 ; get_attr bwd_body_0 ; autograd_function_apply(.., .., l_x_)

    fwd_body_0           takes what forward uses (x); returns ((results,), (what backward needs,))
    bwd_body_0           takes the gradients of the results, then what backward needs;
                         returns a gradient (or None) for each input of fwd_body_0

``ctx`` is an object of a class of nbcompile, traced like any other (polyfills/autograd.py).
With ``ctx.set_materialize_grads(False)`` the graph still takes zeros for missing gradients. A ``backward`` that depends
on the difference (it compares a gradient with None, or returns it unchanged) is not traced.
If no gradient is needed, ``forward`` is simply inlined.

In torch: torch/_dynamo/variables/higher_order_ops.py (AutogradFunctionApplyVariable)
and misc.py (AutogradFunctionVariable). Read next: nbcompile/tracing/polyfills/autograd.py
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.autograd.function import Function

from nbcompile import errors, torch_internals
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import comparisons
from nbcompile.tracing.calls.bodies import GRAPH_VALUES, TracedBody, graph_values, inputs, trace_body
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.graph.body import Body
from nbcompile.tracing.polyfills import autograd as polyfills
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import SequenceVariable, TupleVariable
from nbcompile.tracing.variables.tensor import TensorVariable

INHERITED: Any = Function


@handles(torch_internals.AUTOGRAD_APPLY)
def _apply(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, *given = (realise(tracer, each) for each in arguments)
    assert isinstance(owner, ClassVariable)
    cls: Any = owner.value
    _expect_gradients_alone(cls)
    given = _positional(cls, given, keywords)
    # Without a gradient to compute, only ``forward`` is needed, and it is inlined as an ordinary function.
    if torch._C.is_grad_enabled() and any(
        value.example.requires_grad
        for argument in given
        for value in graph_values(tracer, argument, look=True)
        if isinstance(value, TensorVariable)
    ):
        if cls.jvp is not INHERITED.jvp or cls.vjp is not INHERITED.vjp:
            raise _unsupported(f"{cls.__name__} has a jvp or vjp of its own")
        return _with_backward(tracer, owner, [realise(tracer, each) for each in given])
    return tracer.call(FunctionVariable(_polyfill("forward_and_setup")), _for_forward(tracer, owner, given))


def _expect_gradients_alone(cls: Any) -> None:
    """Break the graph inside of ``vmap``, ``jvp`` and ``functionalize``, and where functorch's ``grad`` raises."""
    # Inlined, ``vmap`` would use the formula of each operator instead of the program's ``vmap`` and ``backward``, and
    # ``jvp`` likewise; the operator of the graph has no rule for them.
    layers = torch._C._functorch.get_interpreter_stack() or []
    if any(layer.key() != torch._C._functorch.TransformType.Grad for layer in layers):
        raise _unsupported(f"{cls.__name__} is applied inside of vmap, jvp or functionalize")
    if layers and not _has_setup(cls):
        raise _unsupported(f"{cls.__name__} has no setup_context, which functorch requires")


def _unsupported(problem: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.AUTOGRAD_FUNCTION, "", problem=problem)


def _polyfill(name: str) -> Any:
    return getattr(polyfills, name)


def _positional(cls: Any, given: Sequence[VariableTracker], keywords: Keywords) -> list[VariableTracker]:
    """Keywords of ``apply`` are parameters of ``forward``."""
    if not keywords:
        return list(given)
    code = cls.forward.__code__
    names = code.co_varnames[(0 if _has_setup(cls) else 1) : code.co_argcount]
    rest = names[len(given) : len(given) + len(keywords)]
    if set(rest) != set(keywords):
        raise _unsupported("its keywords are not its next positional parameters")
    return [*given, *(keywords[name] for name in rest)]


def _has_setup(cls: Any) -> bool:
    return cls.setup_context is not INHERITED.setup_context


def _for_forward(tracer: Tracer, owner: ClassVariable, given: Arguments) -> list[VariableTracker]:
    needs = [isinstance(each, TensorVariable) and each.example.requires_grad for each in given]
    context = tracer.call(ClassVariable(polyfills.Context), [TupleVariable([ConstantVariable(each) for each in needs])])
    setup = owner.get_attribute(tracer, "setup_context") if _has_setup(owner.value) else ConstantVariable(None)
    return [owner.get_attribute(tracer, "forward"), setup, context, *given]


def _with_backward(tracer: Tracer, owner: ClassVariable, given: Sequence[VariableTracker]) -> VariableTracker:
    # Two bodies, as arguments of one operator of the graph:
    #     forward(inputs)              -> results, and what backward needs
    #     backward(gradients, saved)   -> a gradient for each input
    output = tracer.output
    with output.inside(output.new_body(may_change=True)) as body:
        prepared = _for_forward(tracer, owner, given)
    forward = trace_body(tracer, FunctionVariable(_polyfill("traced_forward")), prepared, body=body)
    tensors = [each for each in given if isinstance(each, TensorVariable)]
    for tensor in tensors:  # unused ones, too: backward returns gradients for them
        body.lift(tensor.node)
    # Gradients are stored by node (``_return_gradients``): for a tensor that is passed twice, one would be lost.
    if len({id(each.example) for each in tensors}) < len(tensors):
        raise _unsupported("the same tensor is given twice")
    context = prepared[2]
    backward, gradients = _trace_backward(tracer, owner, context, forward)
    if not _fit(gradients, given):
        raise _unsupported("its backward does not return one gradient, or None, for each input of its forward")
    _return_gradients(backward.body, body, given, gradients)
    saved = _save(forward, backward.body)
    bodies = (output.install("fwd_body", body), output.install("bwd_body", _take_all(forward, backward.body, saved)))
    return _call(tracer, forward, bodies, _marks(tracer, context, forward, saved))


def _results(forward: TracedBody) -> list[VariableTracker]:
    result = forward.result
    return list(result.items) if isinstance(result, SequenceVariable) else [result]


def _trace_backward(
    tracer: Tracer, owner: ClassVariable, context: VariableTracker, forward: TracedBody
) -> tuple[TracedBody, list[VariableTracker]]:
    # A child of the forward body: values of forward that backward uses are lifted out of it, and are saved.
    body = tracer.output.new_body(forward.body)
    none = ConstantVariable(None)
    results = [realise(tracer, each) for each in _results(forward)]
    placeholders = iter(inputs(body, [each for each in results if isinstance(each, TensorVariable)]))
    gradients = [next(placeholders) if isinstance(each, TensorVariable) else none for each in results]
    tensors = [each for each in gradients if isinstance(each, TensorVariable)]
    for gradient in tensors:
        as_zeros = context.get_attribute(tracer, "materialize_grads").truth(tracer)
        gradient.may_be_missing = not as_zeros and len(tensors) > 1
    grad_mode = torch._C.is_grad_enabled()
    torch._C._set_grad_enabled(False)  # no node is needed: backward runs without gradients
    try:
        traced = trace_body(tracer, owner.get_attribute(tracer, "backward"), [context, *gradients], body=body)
    # In eager mode backward runs later, if at all: no handler around ``apply`` may catch what it raises.
    except (ObservedException, errors.TorchRuntimeError) as error:
        raise _unsupported("its backward raises an exception") from error
    finally:
        torch._C._set_grad_enabled(grad_mode)
    result = traced.result
    return traced, [realise(tracer, each) for each in result.items] if isinstance(result, SequenceVariable) else [
        result
    ]


def _fit(gradients: Sequence[VariableTracker], given: Sequence[VariableTracker]) -> bool:
    """Return whether autograd accepts the gradients: further results may be None."""
    pairs = itertools.zip_longest(gradients, given)
    return len(gradients) >= len(given) and all(
        (gradient.is_constant() and gradient.constant() is None)
        or (isinstance(gradient, GRAPH_VALUES) and isinstance(argument, TensorVariable))
        for gradient, argument in pairs
    )


def _return_gradients(
    backward: Body, forward: Body, given: Sequence[VariableTracker], gradients: Sequence[VariableTracker]
) -> None:
    """One gradient, or None, for each input of the forward graph."""
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    for argument, gradient in zip(given, gradients, strict=False):
        if isinstance(gradient, TensorVariable) and gradient.may_be_missing:
            raise comparisons.missing_gradient()
        if isinstance(argument, TensorVariable) and isinstance(gradient, GRAPH_VALUES):
            known[argument.node] = backward.lift(gradient.node)
    (output,) = backward.graph.find_nodes(op="output")
    backward.graph.erase_node(output)
    # A None for each input for which backward returns no gradient.
    backward.graph.output(tuple(known.get(node) for node in forward.lifted))


def _save(forward: TracedBody, backward: Body) -> list[torch.fx.Node]:
    """Let the forward graph return the values that backward needs; return backward's nodes of them."""
    body = forward.body
    needed = list(backward.lifted)
    (output,) = body.graph.find_nodes(op="output")
    results = output.args[0]
    body.graph.erase_node(output)
    body.graph.output((results, tuple(body.lift(node) for node in needed)))
    return needed


def _take_all(forward: TracedBody, backward: Body, saved: Sequence[torch.fx.Node]) -> Body:
    """Give the backward graph an input for the gradient of every forward result, then for each saved value."""
    tensors = iter([node for node in backward.graph.nodes if node.op == "placeholder"])
    results = {id(each): next(tensors) for each in _results(forward) if isinstance(each, TensorVariable)}
    unused = itertools.count()
    # The operator calls backward with a gradient for each output of forward in order, then the saved values.
    order = [results.get(id(each)) for each in forward.outputs] + [backward.lifted[node] for node in saved]
    whole = Body(backward.parent, {}, may_change=False)
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in order:
        if node is None:
            whole.placeholder(f"unused_{next(unused)}", None)
        else:
            copies[node] = whole.placeholder(node.name, node.meta[EXAMPLE])
    for node in backward.graph.nodes:
        if node.op != "placeholder":
            copies[node] = whole.graph.node_copy(node, copies.__getitem__)
    return whole


def _marks(
    tracer: Tracer, context: VariableTracker, forward: TracedBody, saved: Sequence[torch.fx.Node]
) -> dict[str, object]:
    """Marks that ``forward`` set on its results, by position."""

    def nodes(name: str) -> set[torch.fx.Node]:
        marked = context.get_attribute(tracer, name).unpack(tracer)
        return {each.node for each in (realise(tracer, one) for one in marked) if isinstance(each, TensorVariable)}

    results = [each.node if isinstance(each, TensorVariable) else None for each in _results(forward)]
    kept = nodes("to_save")
    marks: dict[str, object] = {
        "non_differentiable_idx": [index for index, node in enumerate(results) if node in nodes("non_differentiable")],
        "saved_for_backward_idx": [index for index, node in enumerate(saved) if node in kept],
    }
    dirty = nodes("dirty_tensors")
    # The operator identifies dirty tensors by their positions among the results.
    if dirty - set(results):
        raise _unsupported("an input that is marked as dirty is not returned")
    if dirty:
        marks["dirty_idx"] = [index for index, node in enumerate(results) if node in dirty]
    return marks


def _call(
    tracer: Tracer, forward: TracedBody, bodies: tuple[torch.fx.Node, torch.fx.Node], marks: dict[str, object]
) -> VariableTracker:
    node = tracer.output.apply("call_function", _operator(), (*bodies, *forward.body.lifted), marks)
    for index, output in enumerate(forward.outputs):
        item = tracer.output.apply("call_function", operator.getitem, (node, index), {})
        if isinstance(output, GRAPH_VALUES):
            output.node = item
    return forward.result


@functools.cache
def _operator() -> Any:
    return torch.ops.higher_order.autograd_function_apply
