"""``torch.autograd._unsafe_preserve_version_counter``: autograd does not detect writes inside of it.

    with torch.autograd._unsafe_preserve_version_counter(x):      version = getattr(x, "_version")
        x.add_(1)                                                 x.add_(1)
                                                                  _unsafe_set_version_counter((x,), (version,))

A graph cannot break inside: the versions exist only in the graph.

In torch: PreserveVersionContextVariable of torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/tracing/variables/contexts.py
"""

from __future__ import annotations

import torch
import torch.fx

from nbcompile.capture.recipe import Recipe
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import ContextVariable
from nbcompile.tracing.variables.tensor import TensorVariable

CLASS = torch.autograd.grad_mode._unsafe_preserve_version_counter


class PreservedVersionsVariable(ContextVariable):
    """The context manager, with the versions of its tensors at its creation."""

    cls = CLASS

    def __init__(self, tensors: list[torch.fx.Node], versions: list[torch.fx.Node]) -> None:
        super().__init__()
        self.tensors = tensors
        self.versions = versions

    def describe(self) -> str:
        return "PreserveVersionContextVariable()"

    def enter(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        given = (tuple(self.tensors), tuple(self.versions))
        tracer.output.apply("call_function", torch._C._autograd._unsafe_set_version_counter, given, {})
        tracer.output.purity.computes = False

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        return self.recipe(reconstruction)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, self.describe(), name=CLASS.__name__)


@handles(CLASS)
def _preserve(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = realise(tracer, (*arguments, *keywords.values())[0])
    items = [given] if isinstance(given, TensorVariable) else [realise(tracer, each) for each in given.unpack(tracer)]
    tensors = [each.node for each in items if isinstance(each, TensorVariable)]
    versions = [tracer.output.apply("call_function", getattr, (tensor, "_version"), {}) for tensor in tensors]
    return PreservedVersionsVariable(tensors, versions)
