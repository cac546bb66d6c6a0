"""Hooks on gradients.

A hook on an input is registered after the graph has run, before any gradient exists.

    x.register_hook(double)           a statement of the residual program
    handle.remove()                   before that: it is never registered

A hook on an intermediate result is an operator of the graph, whose argument is the hook as a graph of its own.
If its handle is used, the trace restarts, and breaks at the registration of the hook.

    (x * 2).register_hook(double)     get_attr hook_body_0 ; register_hook(mul, hook_body_0)

In torch: TensorVariable.method_register_hook in torch/_dynamo/variables/tensor.py.
Read next: nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import torch.utils.hooks

from nbcompile import errors, torch_internals
from nbcompile.capture.recipe import Attribute, Call, Recipe
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.bodies import inputs, trace_body
from nbcompile.tracing.exceptions import MustBreakEarlier
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.tensor import Special, TensorVariable, method


class HookHandleVariable(VariableTracker):
    """Handle of a hook on a tensor; reconstructing it registers the hook."""

    def __init__(self, tensor: TensorVariable, name: str, hook: VariableTracker) -> None:
        self.tensor = tensor
        self.name = name
        self.hook = hook

    def python_type(self) -> type:
        return torch.utils.hooks.RemovableHandle

    def describe(self) -> str:
        return "RemovableHandleVariable()"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name) if name == "remove" else super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        pending = tracer.side_effects.deferred
        if name != "remove" or self not in pending:
            self.no_method(name)
        pending.remove(self)
        return ConstantVariable(None)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        def make() -> Recipe:
            return Call(Attribute(reconstruction.recipe(self.tensor), self.name), (reconstruction.recipe(self.hook),))

        return reconstruction.shared(self, make)


class BodyHandleVariable(VariableTracker):
    """Handle of a hook that is registered inside the graph: no such object exists outside."""

    def python_type(self) -> type:
        return torch.utils.hooks.RemovableHandle

    def describe(self) -> str:
        return "RemovableHandleVariable()"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        raise MustBreakEarlier("register_hook")

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        raise MustBreakEarlier("register_hook")


def _registering(name: str) -> Special:
    def register(
        tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker | None:
        # A result of the graph: its hook is a body of the graph, which the backward runs.
        if tensor.source is None and _is_plain(tracer, tensor, name):
            return _register_in_graph(tracer, tensor, arguments[0])
        if tensor.source is None or len(arguments) != 1 or keywords:
            kind, of = breaks.UNSUPPORTED_METHOD, f"{name} of {tensor.describe()}"
            raise breaks.unsupported(kind, of, name=name, type="Tensor")
        # An input exists outside: the hook is registered on the real tensor after the graph.
        tracer.output.may_change(None)
        handle = HookHandleVariable(tensor, name, arguments[0])
        tracer.side_effects.deferred.append(handle)
        return handle

    return register


def _is_plain(tracer: Tracer, tensor: TensorVariable, name: str) -> bool:
    return name == "register_hook" and name not in tracer.output.must_break and tensor.example.requires_grad


def _register_in_graph(tracer: Tracer, tensor: TensorVariable, hook: VariableTracker) -> VariableTracker:
    # The hook is traced now, on a gradient with the tensor's metadata.
    output = tracer.output
    body = output.new_body()
    try:
        traced = trace_body(tracer, hook, inputs(body, [tensor]), body=body)
    # In eager mode the backward runs the hook: no handler around ``register_hook`` may catch what it raises.
    except (ObservedException, errors.TorchRuntimeError) as error:
        raise _misused("the hook raises an exception") from error
    result = traced.result
    if not isinstance(result, TensorVariable) and not (result.is_constant() and result.constant() is None):
        raise _misused("the hook returns neither a tensor nor None")
    (returned,) = body.graph.find_nodes(op="output")
    returned.args = tuple(returned.args[0]) or (None,)  # the gradient itself
    node = output.install("hook_body", body)
    operator = torch_internals.register_hook()
    given = (tensor.node, node, *traced.body.lifted)
    # From here on the tensor is the operator's result, so that its gradient passes through the hook.
    tensor.node = output.apply("call_function", operator, given, {}, tensor.example)
    return BodyHandleVariable()


def _misused(problem: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.BODY_MISUSE, "", name="register_hook", problem=problem)


for _name in ("register_hook", "register_post_accumulate_grad_hook"):
    method(_name)(_registering(_name))
