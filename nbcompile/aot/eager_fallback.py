"""Graphs whose results under AOTAutograd would differ from eager mode: they run eagerly, with a reason.

    x.add_(1); y = x.as_strided(...)      functionalisation ignores memory outside of the base tensor
    f(a, a[:2]), where f writes to a      the inputs overlap in this call, and not in the first

In torch: torch/_functorch/_aot_autograd/collect_metadata_analysis.py, which raises errors for some of them. Read next:
nbcompile/aot/input_aliasing.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile.aot import input_aliasing, leaf_views
from nbcompile.aot.compilers import CompiledFunction
from nbcompile.aot.graph_calls import name_of_target, written_arguments
from nbcompile.ir import compiled_artifact


class NeedsEagerFallback(Exception):
    """Error for a graph that AOTAutograd would compute differently from eager mode; the text is the reason."""


GRAD_MODE_DEPENDENT_OPS = frozenset({torch.ops.aten.mkldnn_rnn_layer.default})
"""Operators that save values for backward only in grad mode, which is off inside an autograd.Function."""


def check_grad_mode_ops(joint: torch.fx.GraphModule) -> None:
    """Check that no operator depends on the grad mode, which is off where the compiled forward graph runs."""
    for node in joint.graph.nodes:
        if node.target in GRAD_MODE_DEPENDENT_OPS:
            raise NeedsEagerFallback(f"{node.target} saves values for backward only in grad mode")


AS_STRIDED_WRITE_REASON = "the graph mutates a tensor, and as_strided makes views of any memory"


def check_no_as_strided_write(graph: torch.fx.Graph) -> None:
    """Check that nothing is mutated next to as_strided: functionalisation ignores memory outside of its base tensor."""
    names = {name_of_target(node) for node in graph.nodes if node.op.startswith("call_")}
    if names & {"as_strided", "as_strided_"} and any(
        written_arguments(node) and name_of_target(node) != "as_strided_" for node in graph.nodes
    ):
        raise NeedsEagerFallback(AS_STRIDED_WRITE_REASON)


def check_no_views_in_inference_mode(module: torch.fx.GraphModule) -> None:
    """Check that AOTAutograd can trace the graph: if it fails, torch's dispatcher can create no tensor any more."""
    if any(leaf_views.views_in_inference_mode(module)):
        raise NeedsEagerFallback("the graph views a tensor in inference mode, which AOTAutograd cannot trace")


def check_no_aliases(mutated: Sequence[int], example_inputs: Sequence[Any]) -> None:
    """Check that no other input shares memory with one that is mutated."""
    if mutated and input_aliasing.share_storage(mutated, example_inputs):
        raise NeedsEagerFallback(input_aliasing.REASON)


def with_alias_check(
    compiled: CompiledFunction, module: torch.fx.GraphModule, mutated: Sequence[int], example_inputs: Sequence[Any]
) -> CompiledFunction:
    """Wrap the compiled graph so that calls whose inputs overlap fall back to eager, if inputs can overlap."""
    # Without a second tensor on the device of a mutated one there are no addresses to compare at each call.
    if not input_aliasing.may_overlap(mutated, example_inputs):
        return compiled
    inputs = input_aliasing.alias_check(mutated, example_inputs)
    compiled_artifact.set_alias_check(module, inputs)
    return input_aliasing.with_alias_check(compiled, module.forward, inputs)
