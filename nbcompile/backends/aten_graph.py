"""One functional ATen graph to one callable: lower, schedule, emit, load.

    compile_aten_graph(graph_module, example_inputs, "inference")      generated code, or ATen, operator by operator

    ATen graph ─ lowering ─ Program ─ scheduling ─ Schedule ─ codegen ─ text ─ runtime ─ callable

A graph that no code can be generated for is no error: it runs through ATen, and the record says why.

In torch: compile_fx_inner in torch/_inductor/compile_fx.py. Read next: nbcompile/lowering/graph.py
"""

from __future__ import annotations

import functools
import importlib.metadata
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.fx

from nbcompile import errors, torch_internals
from nbcompile.aot.compilers import BoxedFunction
from nbcompile.backends.gpu import generate_for_gpu, generate_on_gpu, is_on_gpu, obstacle_to
from nbcompile.backends.run_aten import attribute_of, run_through_aten
from nbcompile.codegen import cpp
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.profiler_ranges import profiler_ranges
from nbcompile.ir.kernel import Schedule
from nbcompile.lowering import UnsupportedGraph, lower
from nbcompile.options import DEFAULTS, BackendOptions
from nbcompile.record import recorder
from nbcompile.recording.graph_record import note, record_generated
from nbcompile.runtime import toolchain
from nbcompile.runtime.program import load
from nbcompile.scheduling import schedule
from nbcompile.support import fuel, users_line


class NoCodeGenerator(UnsupportedGraph):
    """Error for a machine that cannot generate code: it has no C++ compiler, or no such target."""


def compile_aten_graph(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str = "inference",
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """Generated code for one functional graph; what cannot be generated runs through ATen, and the record says why."""
    try:
        compiled = _generate_for_device(graph_module, example_inputs, stage, options)
    except (UnsupportedGraph, UnprintableIndex) as reason:
        note(f"{reason}: the graph runs through ATen")
        if isinstance(reason, NoCodeGenerator):
            _warn_once(f"{reason}: graphs run through ATen, operator by operator")
        compiled = run_through_aten(graph_module, example_inputs, stage)
    except Exception as error:  # noqa: BLE001  whatever our mistake is, the user's program continues
        text = f"code generation failed ({_summary(error)}): the {stage} graph runs through ATen"
        note(text)
        users_line.warn(errors.GeneratedCodeWarning(text))
        compiled = run_through_aten(graph_module, example_inputs, stage)
    # Random numbers of our kernels differ from ATen's: such graphs have nothing to be compared with.
    if options.verify and (options.fallback_random or not _draws(graph_module)):
        compiled = verified(compiled, run_through_aten(graph_module, example_inputs, stage), stage)
    return compiled


def _generate_for_device(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], stage: str, options: BackendOptions
) -> BoxedFunction:
    """Generate code for the CPU, for the GPU that the tensors are on, or for one that is simulated."""
    if not fuel.allows("graph", f"{stage} graph of {len(graph_module.graph.nodes)} nodes"):
        raise UnsupportedGraph("bisection")
    if options.target:
        obstacle = obstacle_to(options.target)
        if obstacle:
            raise NoCodeGenerator(obstacle)
        return generate_for_gpu(graph_module, example_inputs, stage, options)
    compiler = toolchain.find()
    if isinstance(compiler, toolchain.NoCompiler):
        raise NoCodeGenerator(compiler.reason)
    if is_on_gpu(graph_module):
        return generate_on_gpu(graph_module, example_inputs, stage, compiler, options)
    return generate(graph_module, example_inputs, stage, compiler, options)


def generate(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str,
    compiler: toolchain.Compiler,
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """The four stages in a row: buffers, kernels in order, source text, a callable.

    Raises:
        UnsupportedGraph: this graph cannot be lowered (a sparse tensor, a device without a code generator).
    """
    keep_sharing, generate_random = stage == "inference", not options.fallback_random
    with recorder.stage("lowering"):
        program = lower(graph_module, keep_sharing=keep_sharing, generate_random=generate_random)
    with recorder.stage("scheduling"):
        planned = schedule(program, buckets=options.bucket_collectives)
    with recorder.stage("codegen"):
        emitted = cpp.emit(_on_cpu(planned))
        emitted = replace(emitted, ranges=profiler_ranges(graph_module, stage, emitted))
    record_generated(graph_module, stage, emitted)
    # A dispatch mode of the user's must not see the operators that loading itself calls (the launcher's self-test).
    with recorder.stage("build"), torch_internals.dispatch_modes()._disable_current_modes():
        return load(emitted, compiler, functools.partial(attribute_of, graph_module), opaque_values(planned))


def _on_cpu(planned: Schedule) -> Schedule:
    """The schedule, all of whose kernels are for the CPU.

    Raises:
        UnsupportedGraph: one is for a device that no code generator knows.
    """
    for kernel in planned.kernels():
        if kernel.device.type != "cpu":
            raise UnsupportedGraph(f"there is no code generator for the device {kernel.device}")
    return planned


def verified(compiled: BoxedFunction, reference: BoxedFunction, stage: str) -> BoxedFunction:
    """``compiled``, compared with ``reference`` at every call (same inputs, same random state).

    Raises, when called:
        errors.VerificationFailed: they differ by more than rounding.
    """

    def run(arguments: list[Any]) -> Sequence[Any]:
        # Copies, since a graph may write to its inputs; and the random state is put back, so that both
        # draw the same numbers.
        copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
        with torch.random.fork_rng():
            expected = reference(copies)
        results = compiled(arguments)
        try:
            torch.testing.assert_close(tuple(results), tuple(expected), equal_nan=True, check_stride=True)
        except AssertionError as difference:
            raise errors.VerificationFailed(stage, str(difference)) from None
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _draws(graph_module: torch.fx.GraphModule) -> bool:
    """True if random numbers are drawn."""
    targets = (node.target for node in graph_module.graph.nodes)
    return any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in targets)


def _summary(error: Exception) -> str:
    """An exception and the function that raised it, on one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}, in {Path(last.filename).name}, {last.name}"


@functools.cache
def _warn_once(text: str) -> None:
    users_line.warn(errors.GeneratedCodeWarning(text))


def compiler_name(target: str = "") -> str:
    """The C++ compiler's own name for itself, "" where there is none; Triton where that compiles for a target."""
    # The C++ compiler is a process that is started to ask it.
    if target and not obstacle_to(target):
        return f"Triton {importlib.metadata.version('triton')}"
    compiler = toolchain.find()
    return compiler.version if isinstance(compiler, toolchain.Compiler) else ""
