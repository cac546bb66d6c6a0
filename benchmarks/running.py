"""Real models, run: the error against eager, how much of them is generated code, and what a call costs.

    python -m benchmarks models

Of each model the inference, and a step of training: forward and backward. A
call node counts as generated if its loop is ours. Matrix products, convolutions
and attention are left out of the count: there ATen's kernels are meant to run.

Read next: benchmarks/models.py
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import nbcompile
from benchmarks import models
from nbcompile.record.model import CompiledGraph

MEANT_FOR_ATEN = ("matrix product", "convolution", "attention")
"""How the reasons begin for which a node is not counted."""
LIMIT = 1e-3
"""How far a result may be from eager's: sums of many numbers, and what divides by them, are rounded differently."""
NO_OPERATORS = ("operator.getitem", "<built-in function getitem>", "getitem")


@dataclass(slots=True)
class Share:
    """Call nodes of some ATen graphs: all that count, and which of them ATen runs."""

    nodes: int = 0
    by_aten: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, graph: CompiledGraph) -> None:
        """Count one graph's forward and backward."""
        externs = [each for each in graph.kernels if each.language == "aten"]
        left_out = [each for each in externs if each.reason.startswith(MEANT_FOR_ATEN)]
        called = [
            node
            for stage in graph.graphs
            if stage.stage in ("inference", "forward", "backward")
            for node in stage.nodes
            if node.op == "call_function" and node.target not in NO_OPERATORS
        ]
        self.nodes += len(called) - len(left_out)
        self.by_aten.update(each.name for each in externs if each not in left_out)

    def percent(self) -> float:
        """How many of a hundred nodes are generated code."""
        return 100 * (1 - self.by_aten.total() / self.nodes) if self.nodes else 100.0


def prepared(model: models.Model, *, learning: bool) -> tuple[torch.nn.Module, models.Inputs]:
    """The model, whose random numbers are switched off: eager's are not those of a generated kernel."""
    module, inputs = models.make(model)
    module.train(learning)
    for each in module.modules():
        for name, value in list(vars(each).items()):  # Dropout's p, Swin's drop_prob, T5's dropout_rate
            if isinstance(value, float) and (name == "p" or "drop" in name):
                setattr(each, name, 0.0)
    return module, inputs


def step(call: Callable[..., Any], module: torch.nn.Module, inputs: models.Inputs, *, learning: bool) -> Any:
    """What one call gives: the outputs, or the outputs and the gradients."""
    with torch.set_grad_enabled(learning):
        output = call(**inputs)
        return (output, _gradients(module, output)) if learning else output


def _gradients(module: torch.nn.Module, output: Any) -> list[torch.Tensor]:
    """The gradients of the parameters: what each element of the outputs weighs is another number.

    The plain sum of what a layer norm gives has no gradient.
    """
    outputs = [each for each in models.tensors(output) if each.requires_grad]
    parameters = [each for each in module.parameters() if each.requires_grad]
    weights = [_weights(each.shape, each.dtype) for each in outputs]
    found = torch.autograd.grad(outputs, parameters, weights, allow_unused=True)
    return [each for each in found if each is not None]


@functools.cache
def _weights(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(shape.numel(), dtype=dtype).sin().view(shape)


def check(found: Any, expected: Any) -> None:
    """A wrong result has no time."""
    wrong = error(found, expected)
    if not wrong <= LIMIT:
        raise ValueError(f"the relative error against eager is {wrong:.2g}")


def error(found: Any, expected: Any) -> float:
    """The greatest difference, relative to the greatest value of its tensor.

    A tensor that is nothing beside the others (the gradient of an attention's key bias is zero but for rounding)
    is compared with a thousandth of the greatest of all.
    """
    pairs = list(zip(models.tensors(found), models.tensors(expected), strict=True))
    scales = [float(each.detach().abs().max()) for _, each in pairs]
    floor = max(scales) / 1000
    differences = [float((one.detach().double() - other.detach().double()).abs().max()) for one, other in pairs]
    ratios = [difference / max(scale, floor) for difference, scale in zip(differences, scales, strict=True)]
    return float(torch.tensor(ratios).max())  # which NaN is not lost in


def share(call: Callable[[], Any]) -> tuple[Share, Any]:
    """What is compiled during a call, counted, and the call's result."""
    pen = nbcompile.api.new_recorder("model")
    with pen.listening():
        result = call()
    found = Share()
    for frame in pen.record().frames:
        if frame.compiled_graph is not None:
            found.add(frame.compiled_graph)
    return found, result
