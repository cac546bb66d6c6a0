"""``nn.Parameter(x)`` of an input: the residual program calls the class, and the graph takes the parameter as an input.

    def f(x):                                 parameter = Parameter(x, True)
        p = nn.Parameter(x)          ->       graph_out = __compiled_fn_1(parameter)
        return p, p.sin()                     return parameter, graph_out[0]

A parameter is a leaf of autograd, and ``p is p`` holds: only an object that Python creates is both. A tensor that the
graph computes does not exist before the graph, when the parameter is created, so the graph breaks.

In torch: TorchInGraphFunctionVariable.call_nn_parameter (torch/_dynamo/variables/torch.py). Read next: factories.py
"""

from __future__ import annotations

import inspect

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import ParameterSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.subclasses import PLAIN
from nbcompile.tracing.variables.tensor import TensorVariable, changes_sizes

SIGNATURE = inspect.signature(torch.nn.Parameter.__new__)


@handles(torch.nn.Parameter)
def _parameter(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = [realise(tracer, each) for each in arguments]
    named = {name: realise(tracer, each) for name, each in keywords.items()}
    try:
        bound = SIGNATURE.bind(torch.nn.Parameter, *given, **named).arguments
    except TypeError:
        raise breaks.unsupported(breaks.PARAMETER, "") from None
    data, requested = bound.get("data"), bound.get("requires_grad", ConstantVariable(True))
    source = _address(tracer, data) if isinstance(data, TensorVariable) else None
    if source is None or requested.python_type() is not bool or not requested.is_constant():
        raise breaks.unsupported(breaks.PARAMETER, "")
    assert isinstance(data, TensorVariable)
    requires_grad = bool(requested.constant())
    if requires_grad and not (data.example.is_floating_point() or data.example.is_complex()):
        raise breaks.unsupported(breaks.PARAMETER, "")  # Python raises the error

    def recipe(reconstruction: Reconstructor) -> Recipe:
        function, flag = Constant(torch.nn.Parameter, "Parameter"), Constant(requires_grad, "requires_grad")
        return Call(function, (reconstruction.recipe(data), flag))

    parameter = ParameterSource(source, requires_grad, tracer.side_effects.call_before_graph(recipe))
    return TensorVariable(tracer.output.inputs.parameter(data.node, parameter), parameter, torch.nn.Parameter)


def _address(tracer: Tracer, data: TensorVariable) -> Source | None:
    """Source of a plain tensor from outside that is unchanged since the entry of the frame; None for any other."""
    is_input = data.node.op == "placeholder" and data.cls in PLAIN and not data.example.is_inference()
    # A body of a higher-order operator would have one for all its runs; modes change what ``Parameter`` returns.
    in_body = tracer.output.body is not tracer.output.root
    in_mode = torch.is_inference_mode_enabled() or bool(torch_internals.function_modes())
    if not is_input or in_body or in_mode or torch_internals.in_transform() or _is_another_view(tracer, data):
        return None
    return data.source


def _is_another_view(tracer: Tracer, data: TensorVariable) -> bool:
    """True if the graph changes a tensor's sizes or memory: the parameter would have the earlier ones."""
    changed = (node.args[0] for node in tracer.output.graph.nodes if changes_sizes(node))
    return any(isinstance(owner, torch.fx.Node) and owner.meta[EXAMPLE] is data.example for owner in changed)
