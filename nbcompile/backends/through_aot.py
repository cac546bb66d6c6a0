"""A captured graph through AOTAutograd, or as it was captured where AOTAutograd cannot keep its meaning.

    compile_through_aot(graph_module, example_inputs, compilers)    a callable over the graph's inputs
    as_captured(graph_module, "reason")    the graph operator by operator; the record says why

In torch: torch/_dynamo/backends/common.py (aot_autograd). Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from nbcompile import errors, torch_internals
from nbcompile.aot import (
    checkpoints,
    hidden_writes,
    input_aliasing,
    input_metadata,
    leaf_views,
    overlapping_operands,
    returned_arguments,
    self_overlapping_writes,
    unused_rng,
)
from nbcompile.aot.compile import compile_graph
from nbcompile.aot.compilers import BoxedFunction, Compilers
from nbcompile.aot.eager_fallback import NeedsEagerFallback
from nbcompile.aot.graph_calls import name_of_target
from nbcompile.aot.traced_graphs import requires_grad
from nbcompile.backends.input_views import compile_views
from nbcompile.backends.registry import hidden
from nbcompile.backends.run_aten import run_through_aten
from nbcompile.capture import nested_regions, symbolic_numbers
from nbcompile.ir import compiled_artifact
from nbcompile.recording.graph_record import note, record_graph, rewrite_and_record, timed_backward
from nbcompile.runtime import compiler_processes
from nbcompile.support import lazy_import, users_line

if TYPE_CHECKING:
    from nbcompile.gpu import user_kernels
else:
    user_kernels = lazy_import.module("nbcompile.gpu.user_kernels")

CompileOne = Callable[[torch.fx.GraphModule, Sequence[Any], str], BoxedFunction]
"""Makes a callable of one ATen graph; the last argument is the graph's stage in the record."""


def compile_through_aot(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], compilers: Compilers, *,
    has_target: bool = False, **more: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Compile what AOTAutograd makes of a captured graph, or run the graph as captured, with a reason.

    With a target, or where there is a GPU, operators of ``triton_op`` are launches of their kernels.
    """
    graph_module = symbolic_numbers.with_known_exponents(graph_module)
    graph_module = returned_arguments.with_arguments_for_results(nested_regions.with_inlined_regions(graph_module))
    reason = eager_reason(graph_module, example_inputs)
    if reason:
        return as_captured(graph_module, reason)
    try:
        with (
            _kernels_analysed(),
            torch_internals.launching_triton_operators(has_target or torch_internals.has_cuda_device()),
        ):
            compiled = compile_graph(graph_module, example_inputs, compilers, mutate_in_graph=True, **more)
            return leaf_views.with_leaf_views(compiled, graph_module)
    except NeedsEagerFallback as found:
        return as_captured(graph_module, str(found))
    except Exception as error:
        if not _may_run_as_captured(error, example_inputs):
            raise
        text = f"AOTAutograd cannot trace the graph ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        users_line.warn(errors.GeneratedCodeWarning(f"{text}: it runs as it was captured"))
        return as_captured(graph_module, text)


def _kernels_analysed() -> contextlib.AbstractContextManager[None]:
    """Our analysis of the user's Triton kernels, where there may be one: Triton has been imported."""
    if "triton" not in sys.modules:
        return contextlib.nullcontext()
    return torch_internals.writes_of_kernels(user_kernels.written)


def eager_reason(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """The reason why AOTAutograd would change what a graph means; "" if it would not."""
    if input_aliasing.has_aliased_wrapper(example_inputs):
        return input_aliasing.REASON
    if unused_rng.has_unused_rng(graph_module):
        return unused_rng.REASON
    if self_overlapping_writes.writes_to_self_overlapping_view(graph_module):
        return self_overlapping_writes.REASON
    if overlapping_operands.reads_what_it_writes(graph_module):
        return overlapping_operands.REASON
    if hidden_writes.writes_unseen(graph_module):
        return hidden_writes.REASON
    if reason := input_metadata.eager_reason(graph_module, example_inputs) or leaf_views.eager_reason(graph_module):
        return reason
    if any(node.op.startswith("call_") and _is_decomposed_wrongly(node) for node in graph_module.graph.nodes):
        return "torch's decomposition of multilabel_margin_loss counts classes behind the end of the targets"
    return _state_reason([node.target for node in graph_module.graph.nodes])


_SETTERS = frozenset(
    getattr(torch, name)
    for name in (
        "set_default_dtype set_autocast_dtype set_autocast_cpu_dtype set_autocast_gpu_dtype set_autocast_enabled "
        "set_autocast_cpu_enabled set_autocast_gpu_enabled set_autocast_cache_enabled"
    ).split()
    if hasattr(torch, name)
)
"""Functions that change the state of the process, which no ATen operator does."""


def _state_reason(targets: Sequence[object]) -> str:
    if found := next((target for target in targets if target in _SETTERS), None):
        return f"the graph calls torch.{getattr(found, '__name__', found)}, which no ATen operator does"
    autocast = torch.amp.autocast_mode
    if targets.count(autocast._enter_autocast) != targets.count(autocast._exit_autocast):
        return "the graph enters autocast and does not leave it, which no ATen operator does"
    return ""


def _is_decomposed_wrongly(node: torch.fx.Node) -> bool:
    return name_of_target(node).startswith("multilabel_margin_loss")  # for 0.307 it returned 1.879 in torch 2.13


def _may_run_as_captured(error: Exception, example_inputs: Sequence[Any]) -> bool:
    """True if AOTAutograd failed by a limit of its own, and eager mode may succeed."""
    if torch_internals.is_traced_by_torch() or torch_internals.floats_to_be_constant(error) is not None:
        return False  # torch traces again itself; or the driver does, with constants
    if torch_internals.is_limit_of_tracing(error):
        return True
    # Eager computes derivatives one by one, and only those that are required; here the whole joint graph failed.
    return isinstance(error, RuntimeError) and torch._C.is_grad_enabled() and any(map(requires_grad, example_inputs))


def as_captured(graph_module: torch.fx.GraphModule, reason: str) -> Callable[..., Any]:
    """The captured graph operator by operator, instead of a callable of the backend; the record says why."""
    note(f"{reason}: the graph runs as it was captured")
    runnable = checkpoints.with_eager_checkpoints(graph_module)
    compiled_artifact.fall_back_to_eager(runnable)
    return hidden(torch_internals.forward_of(runnable))


def recording_compilers(
    compile_one: CompileOne,
    captured: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]] | None = None,
) -> Compilers:
    """The three compilers that AOTAutograd calls, each of which records its graph first.

    ``rewrite`` improves a graph for inference, and says what it did.
    """

    def compiler(stage: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]:
        def compile_and_record(graph_module: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
            if rewrite is not None and stage == "inference":
                rewrite_and_record(graph_module, rewrite, captured)
            record_graph(graph_module, stage, captured)
            if stage != "backward":
                return compile_one(graph_module, examples, stage)
            with timed_backward(generates=compile_one is not run_through_aten):
                return compile_one(graph_module, examples, stage)

        return compile_and_record

    return Compilers(
        forward=compiler("forward"),
        backward=compiler("backward"),
        inference=compiler("inference"),
        **({} if compile_one is run_through_aten else {"views": compile_views}),
        on_joint_graph=lambda joint: record_graph(joint, "joint", captured),
        concurrently=compiler_processes.builds.doing,
    )
