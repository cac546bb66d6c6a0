"""The captured graph of a frame, compiled by the backend that the user chose.

    compiled = compile_captured_graph(trace, frame, options)
    compiled.function      a callable over the graph's inputs; None: there is no graph
    compiled.artifact      what a later process makes the same callable of (fast/disk_cache/)

In torch: OutputGraph.call_user_compiler in torch/_dynamo/output_graph.py. Read next: nbcompile/backends/builtin.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from nbcompile import config, hooks, torch_internals
from nbcompile.backends.builtin import is_one_autograd_function
from nbcompile.backends.gradient_buckets import Compile, split_at_buckets
from nbcompile.backends.registry import OperatorFailure, has_own_errors, lookup, reporting_failures, specialised
from nbcompile.backends.through_aot import as_captured
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import SizeSource
from nbcompile.capture.trace import CapturedGraph, GraphBreak, Trace
from nbcompile.ir import compiled_artifact
from nbcompile.ir.compiled_artifact import ArtifactBuilder
from nbcompile.options import Options


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A compiled graph, and the data from which a later process makes the same one."""

    function: Callable[..., object] | None
    """None: the frame has no graph."""
    artifact: ArtifactBuilder
    failure: type[Exception] = Exception
    """Class of the exceptions that the function raises where an operator of the program fails."""


def compile_captured_graph(trace: Trace, frame: Frame, options: Options) -> CompiledGraph:
    """Compile the graph of a trace, if it has one; what the backend loads meanwhile is part of the artifact."""
    with compiled_artifact.collecting() as artifact:
        function = _compiled(trace, frame, options)
    if function is None or trace.graph is None or not has_own_errors(options.backend):
        return CompiledGraph(function, artifact)
    # A backend of the user may run the captured graph, and raise in the middle of it.
    function = torch_internals.restoring_modes(function, trace.graph.module)
    if not trace.reruns_on_error:
        return CompiledGraph(function, artifact)
    return CompiledGraph(reporting_failures(function, trace.graph.module), artifact, OperatorFailure)


def _compiled(trace: Trace, frame: Frame, options: Options) -> Callable[..., object] | None:
    graph = trace.graph
    if graph is None:
        return None
    if is_one_autograd_function(options.backend) and (reason := _reason_to_run_as_captured(trace, graph)):
        return as_captured(graph.module, reason)
    backend = lookup(options.backend, mode=options.mode, options=options.backend_options)
    scope = frame.scope()
    backend = _split_for_ddp(backend, graph, scope)
    # Addresses are read by ordinary attribute access: a subclass
    # with __torch_function__ among the inputs would see it.
    with torch._C.DisableTorchFunction():
        overridden = any(torch_internals.is_overriding(resolve(each.source, scope)) for each in graph.inputs)
        inputs = _example_inputs(graph, scope)
    # A graph for tensors with __torch_function__, or below a function mode, is compiled for plain tensors, at once.
    intercepted = overridden or bool(torch_internals.function_modes())
    is_now = intercepted or torch_internals.records_backward()  # what is stored has no graph for the recorder
    compile_graph = hooks.compile_now if is_now else hooks.active().compile_graph
    # The mode has seen the calls while they were traced: the compiler's own calls are not for it.
    with torch_internals.without_function_modes():
        compiled = compile_graph(backend, graph, inputs)
    requested = list(_requested_sizes(graph, scope))
    # After the general code: it is what runs for every size that no condition names.
    if requested:
        compiled = specialised(compiled, requested, lambda *inputs: backend(graph.module, list(inputs)))
    if not intercepted:
        return compiled
    compiled_artifact.mark_not_storable("the graph runs outside of function modes, on plain tensors")
    return torch_internals.without_overrides(compiled)


def _reason_to_run_as_captured(trace: Trace, graph: CapturedGraph) -> str | None:
    """Return why no backend that makes one node of the autograd graph may compile it; None if one may."""
    if isinstance(trace.exit, GraphBreak) and trace.exit.differentiates:
        return "torch.autograd.grad differentiates one of its results by another"
    if torch_internals.in_transform():
        return "torch.func.functionalize is active, whose tensors are none of memory"
    if torch_internals.forward_level() >= 0:
        return "a level of forward-mode AD is active: operators give tangents, kernels do not"
    if torch_internals.entered_forward_levels(graph.module.graph):
        return "it enters a level of forward-mode AD that stays active: its results have tangents"
    return None


def _split_for_ddp(backend: Compile, graph: CapturedGraph, scope: Scope) -> Compile:
    """The backend, for each part of the graph of a DistributedDataParallel module."""
    cap = torch_internals.bucket_bytes() if config.optimize_ddp in (True, "ddp_optimizer") else 0
    if not cap:
        return backend
    sizes = [torch_internals.sent_bytes(resolve(each.source, scope)) for each in graph.inputs]
    return split_at_buckets(backend, cap, sizes)


def guards_of_backend(trace: Trace, options: Options) -> tuple[Guard, ...]:
    """Guards that compiled code needs in addition to those of the trace.

    Below a transform of torch.func new tensors are wrappers, which the dispatcher makes; compiled code gives plain
    ones. The dispatch keys of an input tensor would show whether there is a transform.
    """
    graph = trace.graph
    if graph is None or torch_internals.in_transform() or not is_one_autograd_function(options.backend):
        return ()
    if any(isinstance(each.example, torch.Tensor) and not each.as_tensor for each in graph.inputs):
        return ()
    return (Guard(None, GuardKind.TRANSFORMS, ()),)


def _requested_sizes(graph: CapturedGraph, scope: Scope) -> Iterator[tuple[int, Callable[[int], bool]]]:
    """Sizes for which the user requested specialized code: the position of the input, and a predicate.

    ``mark_dynamic(x, 0, specialize_on=[lambda n: n == 8])``
    """
    for position, graph_input in enumerate(graph.inputs):
        if isinstance(graph_input.source, SizeSource) and graph_input.source.property == "size":
            marked = vars(resolve(graph_input.source.base, scope)).get("_specialize_on", {})
            for condition in marked.get(graph_input.source.dim, ()):
                yield position, condition


def _example_inputs(graph: CapturedGraph, scope: Scope) -> list[object]:
    """The graph's inputs as they are before it runs; symbolic ones as symbols."""
    values = [each.example if graph.symbolic else resolve(each.source, scope) for each in graph.inputs]
    return [torch_internals.plain(each) if isinstance(each, torch.Tensor) else each for each in values]
