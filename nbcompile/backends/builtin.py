"""The built-in backends: one captured graph to one callable.

    lookup("inductor")(graph_module, example_inputs)     a callable over the graph's inputs

    captured graph ─ aot ─┬─ forward  ─┬─ lowering ─ scheduling ─ codegen ─ runtime ─ callable
                          └─ backward ─┘

A backend is any function ``(GraphModule, example_inputs) -> callable``, as in
torch. The four that come with nbcompile are an ablation of the compiler: each does one
thing more than the one before, so that a wrong result can be pinned on a stage.

    eager                        the captured graph as it is
    aot_eager                    + AOTAutograd: functional ATen, with the backward graph
    aot_eager_decomp_partition   + decompositions and the min-cut partition
    inductor                     + our loop-level IR, fusion and generated code (the default)

Others of torch's names are aliases of them: eager_noexcept, eager_debug, aot_eager_default_partitioner, cudagraphs.

In torch: torch/_dynamo/backends/, torch/_inductor/compile_fx.py. Read next:
nbcompile/backends/captured_graph.py, then nbcompile/backends/aten_graph.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from nbcompile import errors, torch_internals
from nbcompile.aot import checkpoints
from nbcompile.aot.attention import fuse_attention
from nbcompile.aot.channels_last import mark_channels_last
from nbcompile.aot.decompositions import default_table
from nbcompile.aot.linear_cross_entropy import fuse_linear_cross_entropy
from nbcompile.backends.aten_graph import compile_aten_graph
from nbcompile.backends.gpu import attention_on_gpu, obstacle_to
from nbcompile.backends.registry import Backend, hidden, register
from nbcompile.backends.run_aten import run_through_aten
from nbcompile.backends.through_aot import compile_through_aot, recording_compilers
from nbcompile.capture import nested_regions
from nbcompile.options import read_settings
from nbcompile.recording.graph_record import note
from nbcompile.support import fuel


@register
def eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The captured graph, not compiled: an error with this backend is an error of capture."""
    flat = nested_regions.with_inlined_regions(graph_module)
    return torch_internals.forward_of(checkpoints.with_eager_checkpoints(flat))


@register
def aot_eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd, and then ATen operator by operator."""
    compilers = recording_compilers(run_through_aten, graph_module)
    return compile_through_aot(graph_module, example_inputs, compilers, recompute=False)


@register
def eager_noexcept(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``eager``, for tests: an exception of the graph itself is raised as an unexpected one."""
    run = eager(graph_module, example_inputs)

    def run_without_exceptions(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except Exception as error:
            raise errors.GraphRaised("Unexpected exception when running generated GraphModule") from error

    return hidden(run_without_exceptions)


@register
def eager_debug(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``eager``, with a check of what each operator's schema says of writes and aliases."""
    run, check = eager(graph_module, example_inputs), torch_internals.schema_check_mode()

    def run_checked(*arguments: Any) -> Any:
        with check():
            return run(*arguments)

    return hidden(run_checked)


@register
def aot_eager_default_partitioner(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Torch's name for ``aot_eager``, which keeps for the backward graph what eager would."""
    return aot_eager(graph_module, example_inputs)


@register
def cudagraphs(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd, and operator by operator; no graph of the device is recorded, which the record says."""
    note("CUDA graphs are not recorded: the graph runs operator by operator")
    return aot_eager(graph_module, example_inputs)


@register
def aot_eager_decomp_partition(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``inductor``, but with ATen operators instead of generated code."""
    compilers = recording_compilers(run_through_aten, graph_module)
    return compile_through_aot(graph_module, example_inputs, compilers, decompositions=default_table())


@register
def inductor(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Our code generator: fused loops in C++, matrix products and the like through ATen."""
    chosen = read_settings(mode, options or {})
    if fuel.allows("pass", fuse_linear_cross_entropy.__name__):
        for text in fuse_linear_cross_entropy(graph_module, is_target=bool(chosen.target)):
            note(text)
    improve = functools.partial(_improve_for_target, chosen.target) if chosen.target else _improve
    compilers = recording_compilers(functools.partial(compile_aten_graph, options=chosen), graph_module, improve)
    return compile_through_aot(
        graph_module, example_inputs, compilers, has_target=bool(chosen.target), decompositions=default_table()
    )


def _improve(graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    rewrites = (fuse_attention, mark_channels_last)
    return tuple(
        text for rewrite in rewrites if fuel.allows("pass", rewrite.__name__) for text in rewrite(graph_module)
    )


def _improve_for_target(target: str, graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Attention by hand as one operator, where the model of the GPU says that it is faster."""
    if obstacle_to(target) or not fuel.allows("pass", fuse_attention.__name__):
        return ()
    return fuse_attention(graph_module, functools.partial(attention_on_gpu, target))


def nbcompile(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Our code generator under the real ``torch.compile(f, backend="nbcompile")``."""
    return inductor(graph_module, example_inputs, **keywords)


def is_one_autograd_function(backend: str | Backend) -> bool:
    """True if it is one of ours that make one node of the autograd graph of all the operators of a captured graph.

    Between two results of such a node there is no path: neither can be differentiated by the other.
    """
    return backend in ("aot_eager", "aot_eager_decomp_partition", "inductor")
