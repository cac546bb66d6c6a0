"""A graph whose tensors are on a GPU: kernels built for the chip that is here, and launched.

    compiled = compile_graph(graph, examples, launcher, compiler, stage, GraphOptions(attribute, keep_sharing=True))
    compiled.program([x])            a whole graph in one call of C (runtime/launcher.c)

What has no Triton form is called as an operator of ATen instead: only that operator, with the reason.

In torch: torch/_inductor/compile_fx.py. Read next: nbcompile/gpu/loading.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.codegen import devices
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.codegen.profiler_ranges import profiler_ranges
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.gpu import cubins, flex_attention, grouped_products, linear_cross_entropy, loading
from nbcompile.gpu.capture_limits import capture_facts
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.graph_options import GraphOptions
from nbcompile.gpu.product_tuning import Benchmark
from nbcompile.gpu.size_hints import size_hints
from nbcompile.gpu.templates import Autotuner, Choice
from nbcompile.gpu.unsupported import extern_operators
from nbcompile.ir.emitted import EmittedProgram
from nbcompile.ir.kernel import Schedule
from nbcompile.lowering import UnsupportedGraph, lower
from nbcompile.record import recorder
from nbcompile.runtime.gpu_launcher import GpuLauncher
from nbcompile.runtime.program import LoadedGraph
from nbcompile.runtime.toolchain import Compiler
from nbcompile.scheduling import schedule


@dataclass(frozen=True, slots=True)
class LaunchedGraph:
    """Result of compiling a graph for the GPU that is here."""

    planned: Schedule
    emitted: EmittedProgram
    program: LoadedGraph
    choices: tuple[Choice, ...] = ()
    """Candidates of each matrix product."""


def compile_graph(
    graph_module: torch.fx.GraphModule,
    examples: Sequence[Any],
    gpu: GpuLauncher,
    compiler: Compiler,
    stage: str,
    options: GraphOptions,
) -> LaunchedGraph:
    """Lower, schedule, emit and build; on a kernel without Triton form, retry with its operators as extern calls.

    Raises:
        UnsupportedGraph: the graph cannot be lowered, or a kernel cannot be compiled, and no single operator is the
        reason.
    """
    # Triton is imported by another process while this one lowers and schedules.
    cubins.start_workers()
    fallbacks: dict[str, str] = {}
    autotuner = _autotuner(gpu, options.backends, graph_module)
    grouped_products.mark(graph_module, None, autotuner)
    flex_attention.mark(graph_module, None, lambda: gpu.capability(0)[2])
    linear_cross_entropy.mark(graph_module, None, lambda: gpu.capability(0)[2])
    # Every round either returns, raises, or adds an operator to the fallbacks: the loop ends. The graph is lowered
    # anew, as an operator that is called divides the kernel that would have had it.
    while True:
        with recorder.stage("lowering"):
            program = lower(
                graph_module, options.keep_sharing, options.generate_random, None, fallbacks, autotuner.parts
            )
        with recorder.stage("scheduling"):
            tuned = autotuner.apply(schedule(program, buckets=options.buckets), fallbacks)
        if tuned is None:
            continue
        planned = tuned
        try:
            with recorder.stage("codegen"):
                emitted = devices.emit(planned, _capability(planned, gpu))
                emitted = replace(emitted, ranges=profiler_ranges(graph_module, stage, emitted))
                if options.launch.cuda_graphs:
                    emitted = replace(emitted, capture=capture_facts(graph_module, planned, emitted))
            with recorder.stage("build"), torch_internals.dispatch_modes()._disable_current_modes():
                loaded = loading.load_on_gpu(
                    emitted, gpu, compiler, options.attribute, opaque_values(planned), options.launch
                )
        except NoTriton as reason:
            more = dict(extern_operators(graph_module, planned, reason.unsupported))
        except cubins.NoTools as reason:
            raise UnsupportedGraph(str(reason)) from reason
        except cubins.CannotCompile as reason:
            more = dict(
                extern_operators(graph_module, planned, {name: (text, ()) for name, text in reason.reasons.items()})
            )
        else:
            return LaunchedGraph(planned, emitted, loaded, tuple(autotuner.choices.values()))
        if not more.keys() - fallbacks.keys():
            raise UnsupportedGraph("; ".join(dict.fromkeys(more.values())) or "a kernel cannot be compiled for a GPU")
        fallbacks |= more


def _capability(planned: Schedule, gpu: GpuLauncher) -> int:
    """Capability that all GPUs of a graph have: 90."""
    used = {kernel.device.index or 0 for kernel in planned.kernels() if kernel.device.type == "cuda"}
    return min((loading.capability(gpu, device) for device in used), default=0)


def _autotuner(gpu: GpuLauncher, backends: tuple[str, ...], graph_module: torch.fx.GraphModule) -> Autotuner:
    """The choice of matrix products by measurement; for a chip that is not in the model, the library's."""
    name = loading.chip_name(gpu, 0)
    # Without candidates of ours the chip is not used.
    if "TRITON" not in backends or name not in CHIPS:
        return Autotuner(CHIPS["sm_80"])
    hints = size_hints(graph_module)
    benchmark = Benchmark(gpu, name, {node.name: node for node in graph_module.graph.nodes}, hints)
    return Autotuner(CHIPS[name], backends, benchmark, hints)
