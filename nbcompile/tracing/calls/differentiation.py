"""Gradients inside of the graph: ``torch.autograd.grad`` and ``loss.backward()``, under ``config.trace_autograd_ops``.

    loss.backward()      grad = torch.autograd.grad(loss, [w], allow_unused=True)
                         new = torch.empty_like(w); new.copy_(grad[0])
                         w.grad = new, or w.grad.add_(new)          without gradients

The derivative is one node, which runs on the fake tensors like any other. The autograd graph that it traverses must
begin in the traced code, as the history of an input is known only at a call. A returned result must not lead into the
same autograd graph, whose saved tensors the derivative frees: otherwise the graph breaks before the derivative.

In torch: method_backward of torch/_dynamo/variables/tensor.py and handle_autograd_grad of variables/torch.py. Read
next: nbcompile/tracing/polyfills/autograd.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from nbcompile import config
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.graph import autograd_graph
from nbcompile.tracing.polyfills import autograd as polyfills
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable
from nbcompile.tracing.variables.tensor import TensorVariable, method

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Attributes of a leaf with hooks that change or read its gradient; None without hooks."""
RETURNED = "autograd.grad"
"""The name in ``must_break`` after an earlier attempt returned a result whose saved tensors the derivative frees."""


@handles(torch.autograd.grad)
def _autograd_grad(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not config.trace_autograd_ops:
        raise breaks.unsupported(breaks.AUTOGRAD_GRAD, "trace_autograd_ops=False")
    given = dict(zip(_GRAD_PARAMETERS, arguments, strict=False)) | dict(keywords)
    outputs, inputs = (_tensors(tracer, given.get(name)) for name in _GRAD_PARAMETERS[:2])
    # The derivative is a node like any other, if autograd's graph from outputs to inputs was recorded by this trace.
    _check(tracer, outputs, inputs, is_kept=_is_true(tracer, given, "retain_graph", "create_graph"))
    return tracer.apply(torch.autograd.grad, arguments, keywords)


_GRAD_PARAMETERS = (
    "outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
)  # fmt: skip
_BACKWARD_PARAMETERS = ("gradient", "retain_graph", "create_graph", "inputs")


@method("backward")
def _backward(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    positional = ", ".join(each.describe() for each in arguments)
    by_name = ", ".join(f"{name!r}: {each.describe()}" for name, each in keywords.items())
    context = f"call_method {tensor.describe()} backward [{positional}] {{{by_name}}}"
    if not config.trace_autograd_ops:
        raise breaks.unsupported(breaks.BACKWARD, context)
    given = dict(zip(_BACKWARD_PARAMETERS, arguments, strict=False)) | dict(keywords)
    if _is_true(tracer, given, "create_graph"):
        raise breaks.unsupported(breaks.BACKWARD_UNTRACED, context, problem="with `create_graph=True`")
    requested = given.get("inputs")
    # ``backward()`` without inputs accumulates into all leaves that the result depends on; as a node it is
    # ``torch.autograd.grad`` of these, and the sums into ``.grad`` are side effects after the graph.
    leaves = _tensors(tracer, requested) if _is_given(tracer, requested) else _leaves(tracer, tensor)
    for leaf in leaves:
        _expect_plain_leaf(tracer, leaf, context)
    named: dict[str, VariableTracker] = {"allow_unused": ConstantVariable(True)}
    for name in ("gradient", "retain_graph"):
        if _is_given(tracer, given.get(name)):
            named[_OF_GRAD.get(name, name)] = given[name]
    gradients = _autograd_grad(tracer, [tensor, ListVariable(list(leaves))], named)
    tracer.call_python(polyfills.accumulate_gradients, ListVariable(list(leaves)), gradients)
    return ConstantVariable(None)


_OF_GRAD = {"gradient": "grad_outputs"}
"""Parameters of ``backward``, by their names in ``torch.autograd.grad``."""


def _is_given(tracer: Tracer, value: VariableTracker | None) -> bool:
    if value is None:
        return False
    value = realise(tracer, value)
    return not (value.is_constant() and value.constant() is None)


def _is_true(tracer: Tracer, given: Keywords, *names: str) -> bool:
    values = (realise(tracer, given[name]) for name in names if name in given)
    return any(value.is_constant() and value.constant() is True for value in values)


def _tensors(tracer: Tracer, value: VariableTracker | None) -> tuple[TensorVariable, ...]:
    """The tensors in an argument.

    Raises:
        breaks.Unsupported: it contains something else (a ``GradientEdge``).
    """
    value = None if value is None else realise(tracer, value)
    items: Iterable[VariableTracker] = [value] if isinstance(value, TensorVariable) else ()
    if isinstance(value, SequenceVariable):
        items = [realise(tracer, each) for each in value.unpack(tracer)]
    tensors = tuple(each for each in items if isinstance(each, TensorVariable))
    if not tensors or len(tensors) < len(list(items)):
        described = "nothing" if value is None else value.describe()
        raise breaks.unsupported(breaks.BACKWARD_UNTRACED, described, problem=f"for {described}")
    return tensors


def _leaves(tracer: Tracer, result: TensorVariable) -> tuple[TensorVariable, ...]:
    """The leaves that a result may depend on: inputs of the graph, parameters among them."""
    found = []
    for node, source in tracer.output.inputs.placeholders:
        example = node.meta[EXAMPLE]
        if isinstance(example, torch.Tensor) and example.requires_grad and example.is_leaf:
            leaf = realise(tracer, tracer.wrap(tracer.real_value(source), source))
            assert isinstance(leaf, TensorVariable)
            found.append(leaf)
    _walked(tracer, (result,), found)
    if tracer.output.new_leaves or not found:
        raise breaks.unsupported(breaks.BACKWARD_UNTRACED, result.describe(), problem="into a tensor created here")
    return tuple({id(each.node): each for each in found}.values())


def _expect_plain_leaf(tracer: Tracer, leaf: TensorVariable, context: str) -> None:
    """Break the graph for a leaf whose gradient cannot be stored after the graph, which calls no hooks."""
    if leaf.source is None or not leaf.example.is_leaf:
        raise breaks.unsupported(breaks.BACKWARD_UNTRACED, context, problem="into a tensor created here")
    tracer.guard(AttrSource(leaf.source, "grad_fn"), GuardKind.NONE_MATCH, None)
    real = tracer.real_value(leaf.source)
    for name in HOOKS:
        if getattr(real, name, None):
            raise breaks.unsupported(breaks.BACKWARD_UNTRACED, context, problem="into a tensor with hooks")
        tracer.guard(AttrSource(leaf.source, name), GuardKind.NONE_MATCH, None)


# --- the traversed autograd graph -----------------------------------------------------------------------------------


def _check(
    tracer: Tracer, outputs: Sequence[TensorVariable], inputs: Sequence[TensorVariable], *, is_kept: bool
) -> None:
    """Check that the derivative can be a node, and record which buffers it frees."""
    output = tracer.output
    if output.body is not output.root:
        raise breaks.unsupported(breaks.BACKWARD_UNTRACED, "", problem="inside of a function given to an operator")
    if RETURNED in output.must_break:
        raise breaks.unsupported(breaks.GRADIENT_RETURNED, "")
    walked = _walked(tracer, outputs, inputs)
    # A derivative frees the saved tensors of the nodes that it traverses, unless the graph is retained. A second
    # derivative through the same nodes would fail in eager mode as well.
    freed = set() if is_kept else {each for each in walked if each.name() != _ACCUMULATES}
    if not freed.isdisjoint(output.freed_by_gradients):
        raise breaks.unsupported(breaks.GRADIENT_TWICE, "")
    output.freed_by_gradients |= freed


_ACCUMULATES = "torch::autograd::AccumulateGrad"


def _walked(tracer: Tracer, outputs: Sequence[TensorVariable], inputs: Sequence[TensorVariable]) -> set[Any]:
    """The nodes of the autograd graph that the derivative of some tensors by others traverses.

    Raises:
        breaks.Unsupported: some of them were created outside of the compiled function.
    """
    # The traversal ends at the inputs of the derivative.
    ends = {each.example.grad_fn for each in inputs if each.example.grad_fn is not None}
    walked = set(autograd_graph.reachable((each.example for each in outputs), ends))
    given = {id(each.node) for each in inputs}
    for node, source in tracer.output.inputs.placeholders:
        _expect_leaf(tracer, node.meta[EXAMPLE], source, walked, is_input=id(node) in given)
    return walked


def _expect_leaf(tracer: Tracer, example: object, source: Source, walked: set[Any], *, is_input: bool) -> None:
    """Break the graph for an input with a history, which is unknown while tracing; guard that others have none."""
    if not isinstance(example, torch.Tensor) or not example.requires_grad or is_input:
        return
    if example.grad_fn is None:
        tracer.guard(AttrSource(source, "grad_fn"), GuardKind.NONE_MATCH, None)
    elif example.grad_fn in walked:
        raise breaks.unsupported(breaks.GRADIENT_OF_OUTSIDE, str(example.grad_fn.name()))
