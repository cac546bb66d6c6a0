"""ATen graphs from a tracer: for inference, or joint, with the derivative.

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
from nbcompile.aot.runtime_metadata import RuntimeMetadata, TangentLayout, TrainingMetadata, dynamic_dims


@dataclass(frozen=True, slots=True)
class InferenceGraph:
    """A graph in ATen operators."""

    module: torch.fx.GraphModule
    written: Sequence[int]
    """The inputs that are mutated at its end."""


@dataclass(frozen=True)
class JointGraph:
    """A joint graph, with the values from which its runtime metadata is computed."""

    graph: torch.fx.GraphModule
    """Joint graph, whose output lists the results, then one gradient per input or None."""
    outputs: Sequence[torch.Tensor | torch.SymInt]
    """The results, as fake tensors with their autograd history."""
    with_gradient: Sequence[int]
    """The inputs that have a gradient."""
    reached: Sequence[int] = ()
    """The inputs that autograd reaches from the results, whether or not they have a gradient."""

    def runtime_metadata(
        self,
        saved_tensors: int,
        saved_numbers: int,
        example_inputs: Sequence[Any],
        saves_intermediates: bool,
        shared_with_outputs: Sequence[tuple[int, int]] = (),
    ) -> RuntimeMetadata:
        """Runtime metadata of the graph, if its forward part saves this many tensors and sizes for the backward.

        ``saves_intermediates``: some of these tensors are donated buffers (donated_buffers.py).
        ``shared_with_outputs``: some have the memory of an output (exposed_memory.py).
        """
        count = len(self.outputs)
        end = count + saved_tensors
        trained = [at for at, each in enumerate(self.outputs) if requires_grad(each)]
        training = TrainingMetadata(
            detached_inputs=[
                at
                for at, example in enumerate(example_inputs)
                if requires_grad(example) and at not in self.with_gradient and not self._keeps_edge(at, example)
            ],
            view_outputs=[
                at for at, output in enumerate(self.outputs) if isinstance(output, torch.Tensor) and output._is_view()
            ],
            non_differentiable_outputs=[at for at in range(count) if at not in trained],
            saved_checked=slice(count, end),
            # Empty: the versions of all saved tensors are checked.
            saved_unchecked=slice(end, end),
            saved_numbers=slice(end, end + saved_numbers),
            forward_returns=count,
            differentiable_outputs=trained,
            tangent_layouts=[_layout(self.outputs[at]) for at in trained],
            deterministic=torch.are_deterministic_algorithms_enabled(),
            shared_with_outputs=shared_with_outputs,
            saves_intermediates=saves_intermediates,
        )
        return RuntimeMetadata(dynamic_dims(self.outputs), training=training)

    def _keeps_edge(self, at: int, example: torch.Tensor) -> bool:
        """Return whether autograd's graph has an edge to an input without a gradient.

        Through an input with history autograd would continue to what computed it. A leaf's hooks run, with None, where
        an ``autograd.Function`` returns None for it; they do not run where it is used only under ``no_grad``.
        """
        return example.is_leaf and (at in self.reached or not self.with_gradient)


def _layout(output: Any) -> TangentLayout:
    """The layout of a gradient: the output's; or a memory format, if the sizes vary or the output overlaps itself."""
    if torch_internals.has_symbolic_form(output) or torch_internals.overlaps_itself(output):
        return TangentLayout(None, None, torch_internals.memory_format(output))
    return TangentLayout(tuple(output.size()), tuple(output.stride()), None)


def requires_grad(value: object) -> bool:
    """True if it is a tensor that requires grad."""
    return isinstance(value, torch.Tensor) and value.requires_grad
