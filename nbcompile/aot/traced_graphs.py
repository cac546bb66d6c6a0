"""ATen graphs as a tracer hands them over: for inference, or joint, with the derivative.

    InferenceGraph(module, written=[0])                    its first input gets another value at its end
    JointGraph(graph, outputs, with_gradient=[0, 1])       two of its inputs have a gradient

In torch: torch/_functorch/_aot_autograd/schemas.py. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot.runtime_wrapper import RuntimeMetadata, dynamic_dims


@dataclass(frozen=True, slots=True)
class InferenceGraph:
    """A graph in ATen operators."""

    module: torch.fx.GraphModule
    written: Sequence[int]
    """The inputs that are mutated at its end."""


@dataclass(frozen=True)
class JointGraph:
    """A joint graph, and what joining its halves needs to know of it."""

    graph: torch.fx.GraphModule
    """Its output lists the results, then one gradient per input or None."""
    outputs: Sequence[torch.Tensor | torch.SymInt]
    """The results, as fakes with their place in autograd's graph."""
    with_gradient: Sequence[int]
    """The inputs that have a gradient."""

    def runtime_metadata(
        self, saved_count: int, saved_number_count: int, example_inputs: Sequence[Any]
    ) -> RuntimeMetadata:
        """The arguments of ``runtime_wrapper.training``, if the forward graph saves this many values and sizes."""
        count = len(self.outputs)
        end = count + saved_count
        trained = [at for at, each in enumerate(self.outputs) if requires_grad(each)]
        return {
            "dynamic": dynamic_dims(self.outputs),
            "versions": [],
            "aliases": [],
            "detached": [
                at
                for at, example in enumerate(example_inputs)
                if requires_grad(example) and not example.is_leaf and at not in self.with_gradient
            ],
            "views": [at for at, each in enumerate(self.outputs) if isinstance(each, torch.Tensor) and each._is_view()],
            "fixed": [at for at in range(count) if at not in trained],
            "checked": [count, end],
            "unchecked": [end, end],
            "numbers": [end, end + saved_number_count],
            "returns": count,
            "gradients": trained,
            "layouts": [_layout(self.outputs[at]) for at in trained],
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }


def _layout(output: Any) -> tuple[Any, ...]:
    """The layout of a gradient: the output's; or its own memory format, if its sizes vary, or it overlaps itself."""
    if torch_internals.has_symbolic_form(output) or torch_internals.overlaps_itself(output):
        return None, None, torch_internals.memory_format(output)
    return tuple(output.size()), tuple(output.stride()), None


def requires_grad(value: object) -> bool:
    """True if a gradient may be asked for through this input."""
    return isinstance(value, torch.Tensor) and value.requires_grad
