"""A graph compiled for a GPU: Triton kernels, which the GPU that is here runs, or a simulator.

    compile(f)(x_on_cuda)                          launched on the GPU (gpu/launched.py)
    compile(f, options={"target": "sm_90"})(x)     simulated, for a GPU that is not here (gpu/target.py)

In torch: torch/_inductor/codegen/triton.py, for a GPU that is there. Read next: nbcompile/gpu/target.py
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch.fx

from nbcompile import errors
from nbcompile.aot.compilers import BoxedFunction
from nbcompile.backends.run_aten import attribute_of, run_through_aten
from nbcompile.gpu.chip import CHIPS, Chip
from nbcompile.gpu.graph_options import GraphOptions, LaunchOptions
from nbcompile.ir import compiled_artifact
from nbcompile.ir.attention import Sizes
from nbcompile.lowering import UnsupportedGraph
from nbcompile.options import BackendOptions
from nbcompile.record import model, recorder
from nbcompile.recording.graph_record import record_generated
from nbcompile.runtime.toolchain import Compiler
from nbcompile.support import lazy_import, users_line

if TYPE_CHECKING:
    from nbcompile.gpu import (
        attention_times,
        choices as choices_of_products,
        cubins,
        figures,
        launched,
        sass,
        target as gpu,
        templates,
    )
    from nbcompile.ir.kernel import Schedule
    from nbcompile.runtime import gpu_launcher
else:  # Triton is an extra
    figures, gpu = lazy_import.module("nbcompile.gpu.figures"), lazy_import.module("nbcompile.gpu.target")
    choices_of_products = lazy_import.module("nbcompile.gpu.choices")
    launched = lazy_import.module("nbcompile.gpu.launched")
    attention_times = lazy_import.module("nbcompile.gpu.attention_times")
    gpu_launcher = lazy_import.module("nbcompile.runtime.gpu_launcher")
    cubins = lazy_import.module("nbcompile.gpu.cubins")


def is_on_gpu(graph_module: torch.fx.GraphModule) -> bool:
    """Return whether a tensor of the graph is on a CUDA device."""
    values = (node.meta.get("val") for node in graph_module.graph.nodes)
    return any(isinstance(value, torch.Tensor) and value.device.type == "cuda" for value in values)


def generate_on_gpu(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str,
    compiler: Compiler,
    options: BackendOptions,
) -> BoxedFunction:
    """Like :func:`generate`, for tensors that are on the GPU of this machine.

    Raises:
        UnsupportedGraph: this graph cannot be lowered, or nothing can be launched here.
    """
    opened = gpu_launcher.open_launcher(compiler)
    if isinstance(opened, gpu_launcher.NoGpu):
        raise UnsupportedGraph(opened.reason)
    launched_graph = launched.compile_graph(
        graph_module, example_inputs, opened, compiler, stage, _graph_options(graph_module, stage, options)
    )
    record_generated(graph_module, stage, launched_graph.emitted)
    _record_choices(recorder.draft(), stage, launched_graph.planned, launched_graph.choices)
    return launched_graph.program


def _graph_options(graph_module: torch.fx.GraphModule, stage: str, options: BackendOptions) -> GraphOptions:
    """The options of a graph, from those of the user."""
    return GraphOptions(
        functools.partial(attribute_of, graph_module),
        keep_sharing=stage == "inference",
        generate_random=not options.fallback_random,
        backends=options.product_backends,
        buckets=options.bucket_collectives,
        launch=LaunchOptions(options.debug, options.cuda_graphs),
    )


def obstacle_to(target: str) -> str:
    """The reason why nothing can be compiled for the requested GPU; "" if it can, or none is requested."""
    if not target:
        return ""
    if target not in CHIPS:
        return f"target: expected one of {', '.join(CHIPS)}, got {target!r}"
    missing = [name for name in ("triton", "numpy") if importlib.util.find_spec(name) is None]
    return f"target={target!r} needs {' and '.join(missing)} (pip install nbcompile[cuda])" if missing else ""


def start_compilers() -> None:
    """Have the processes started that compile for a target, while this one traces."""
    cubins.start_workers()


def attention_on_gpu(target: str, sizes: Sizes) -> tuple[bool, str]:
    """Decide whether an attention is to be one operator on a GPU; with the predicted times in words."""
    size = sizes.dtype.itemsize
    shape = attention_times.AttentionShape(
        sizes.heads, sizes.rows, sizes.keys, sizes.width, size, "narrow" if size == 2 else "float32",
        sizes.steps * sizes.rows * sizes.keys * size,
    )  # fmt: skip
    choice = attention_times.choose(shape, CHIPS[target])
    return choice.is_fused, f": {choice.text()}"


def generate_for_gpu(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], stage: str, options: BackendOptions
) -> BoxedFunction:
    """Like :func:`generate`, for a GPU that is not here: a simulator runs its code.

    Raises:
        UnsupportedGraph: this graph cannot be lowered, or Triton's tools are missing.
    """
    chip = CHIPS[options.target]
    try:
        graph = gpu.compile_graph(
            graph_module, example_inputs, chip, _graph_options(graph_module, stage, options),
            seconds=options.simulation_seconds, sample=options.simulated_programs,
        )  # fmt: skip
    except gpu.NoTools as reason:
        raise UnsupportedGraph(str(reason)) from reason
    compiled_artifact.mark_not_storable(f"its code is for {chip.name}")
    draft = recorder.draft()
    record_generated(graph_module, stage, graph.emitted)
    _record_choices(draft, stage, graph.planned, graph.choices)
    gpu_record = None if draft is None else _GpuPage(draft, stage, graph, chip)

    def report(reason: str) -> None:
        text = f"{reason}: the call runs through ATen"
        users_line.warn(errors.GeneratedCodeWarning(text))
        if gpu_record is not None:
            gpu_record.note(text)

    reference = run_through_aten(graph_module, example_inputs, stage)
    return gpu.run_or_call(
        graph.program, graph.emitted.written, reference, report, gpu_record.write if gpu_record else lambda: None
    )


def _record_choices(
    draft: recorder.FrameDraft | None, stage: str, planned: Schedule, choices: Sequence[templates.Choice]
) -> None:
    """Record the candidates of matrix products, with the kernel or the call that was chosen."""
    if draft is None or not choices:
        return
    by_name = choices_of_products.described_steps(planned, choices)
    by_id = {f"{draft.compile_id}.{stage}.{name}": each for name, each in by_name.items()}
    known: Any = draft.graph_fields["kernels"]
    draft.write_graph(kernels=tuple(replace(each, autotuning=by_id.get(each.id, each.autotuning)) for each in known))


class _GpuPage:
    """The record of one graph's GPU kernels: ptxas's figures, and the memory traffic of the first call."""

    def __init__(self, draft: recorder.FrameDraft, stage: str, graph: gpu.TargetGraph, chip: Chip) -> None:
        self.page: recorder.FrameDraft | None = draft
        self.program, self.chip = graph.program, chip
        self.prefix = f"{draft.compile_id}.{stage}."
        self.kernels = {name: figures.built(each, chip) for name, each in graph.program.kernels.items()}
        # Machine code is printed by other processes, while this one simulates the first call.
        self.printer: sass.Printer | None = figures.disassembling(graph.program.kernels)
        draft.write_graph(target=chip.name)
        self._replace(draft)

    def write(self) -> None:
        """Write the figures, after the first call."""
        draft, self.page = self.page, None
        if draft is None:
            return
        for launch in self.program.launches:
            name = launch.kernel.name
            ready = self.program.kernels[name]
            known = self.kernels.get(name) or figures.built(ready, self.chip)  # the user's are compiled when they run
            self.kernels[name] = figures.launched(known, launch, ready.first_line)
        # The user's own kernels are compiled by the first call.
        printer = figures.disassembling(self.program.kernels, self.printer)
        self.kernels = figures.disassembled(self.kernels, self.program.kernels, printer)
        self.printer = None
        self._replace(draft)
        draft.rewrite()

    def note(self, text: str) -> None:
        """A call ran otherwise."""
        if self.page is not None and text not in self.page.graph_fields.get("notes", ()):  # type: ignore[operator]
            self.page.add_to_graph("notes", text)
            self.page.rewrite()

    def _replace(self, draft: recorder.FrameDraft) -> None:
        known: Any = draft.graph_fields["kernels"]
        by_id = {self.prefix + name: (name, each) for name, each in self.kernels.items()}
        shown = (self._shown(each, *by_id[each.id]) if each.id in by_id else each for each in known)
        draft.write_graph(kernels=tuple(shown))

    def _shown(self, entry: model.Kernel, name: str, gpu_figures: model.Gpu) -> model.Kernel:
        if entry.language == "triton":
            return replace(entry, gpu=gpu_figures)
        users = self.program.kernels[name].kernel  # a call of the plan, for a Triton kernel of the user's
        return replace(entry, gpu=gpu_figures, name=users.function, language="triton", source=users.source)
