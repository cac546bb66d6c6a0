"""Cross-compilation of an ATen graph for an absent GPU: kernels are compiled for the chip and run in the simulator.

    compiled = compile_graph(graph, examples, CHIPS["sm_90"], GraphOptions(attribute, keep_sharing=True))
    compiled.emitted.kernels    Triton's text, as for a GPU
    compiled.program(x)         eager's results, out of the code for the GPU

Tensors are on the CPU. Lowering and scheduling treat them as tensors on the GPU, so loops are those of
a GPU. What has no Triton form, or what the simulator cannot run, is called as an operator of ATen instead: only that
operator, with the reason.

In torch: nothing. Read next: nbcompile/gpu/simulated.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.codegen import triton
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.gpu import cubins, flex_attention, grouped_products, linear_cross_entropy, simulated
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.cubins import NoTools
from nbcompile.gpu.graph_options import GraphOptions
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.ptx import UnsupportedInstruction
from nbcompile.gpu.size_hints import size_hints
from nbcompile.gpu.templates import Autotuner, Choice
from nbcompile.gpu.unsupported import extern_operators
from nbcompile.ir.emitted import EmittedProgram
from nbcompile.ir.kernel import Schedule
from nbcompile.lowering import UnsupportedGraph, lower
from nbcompile.record import recorder
from nbcompile.scheduling import schedule
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.gpu import simulated_kernels
else:  # imports Triton, which a program with kernels of its own has imported already
    simulated_kernels = lazy_import.module("nbcompile.gpu.simulated_kernels")

__all__ = ["NoTools", "TargetGraph", "compile_graph", "run_or_call"]

DEVICE = torch.device("cuda", 0)
"""Device that tensors are assumed to be on."""


@dataclass(frozen=True, slots=True)
class TargetGraph:
    """Result of compiling a graph for a target."""

    planned: Schedule
    emitted: EmittedProgram
    program: simulated.SimulatedGraph
    choices: tuple[Choice, ...] = ()
    """Candidates of each matrix product."""


def compile_graph(
    graph_module: torch.fx.GraphModule,
    examples: Sequence[Any],
    chip: Chip,
    options: GraphOptions,
    *,
    seconds: float = float("inf"),
    sample: int = 0,
) -> TargetGraph:
    """Lower, schedule, emit and compile; on a kernel without Triton form, retry with its operators as extern calls.

    Raises:
        UnsupportedGraph: the graph cannot be lowered, or a kernel cannot be compiled, and no single operator is the
        reason.
        NoTools: nothing can be compiled here.
    """
    cubins.start_workers()  # Triton is imported by another process while this one lowers and schedules
    fallbacks: dict[str, str] = {}
    autotuner = Autotuner(chip, options.backends, hints=size_hints(graph_module))
    grouped_products.mark(graph_module, DEVICE, autotuner)
    flex_attention.mark(graph_module, DEVICE, lambda: chip.multiprocessors)
    linear_cross_entropy.mark(graph_module, DEVICE, lambda: chip.multiprocessors)
    while True:
        with recorder.stage("lowering"):
            # DEVICE makes the tensors of the graph CUDA tensors, though the examples are on the
            # CPU: loops, splits of reductions and products are then those of a GPU.
            program = lower(
                graph_module,
                options.keep_sharing,
                options.generate_random,
                DEVICE,
                fallbacks,
                autotuner.parts,
            )
        with recorder.stage("scheduling"):
            tuned = autotuner.apply(schedule(program, buckets=options.buckets), fallbacks)
        # The library was chosen for a product: lowered again, it is an extern call.
        if tuned is None:
            continue
        planned = tuned
        try:
            with recorder.stage("codegen"):
                emitted = triton.emit(planned, chip.capability)
            with recorder.stage("build"), torch_internals.dispatch_modes()._disable_current_modes():
                budget = simulated.SimulationBudget(seconds, sample)
                loaded = simulated.load(emitted, chip, options.attribute, opaque_values(planned), budget, _users_kernel)
        except NoTriton as reason:
            more = dict(extern_operators(graph_module, planned, reason.unsupported))
        except simulated.CannotLoad as reason:
            more = dict(
                extern_operators(graph_module, planned, {name: (text, ()) for name, text in reason.reasons.items()})
            )
        else:
            return TargetGraph(planned, emitted, loaded, tuple(autotuner.choices.values()))
        if not more.keys() - fallbacks.keys():
            raise UnsupportedGraph("; ".join(dict.fromkeys(more.values())) or "a kernel cannot be compiled for a GPU")
        fallbacks |= more


def _users_kernel(*how: Any) -> Callable[..., None]:
    return simulated_kernels.SimulatedKernel(*how)


def run_or_call(
    program: simulated.SimulatedGraph, written: Sequence[int], reference: Callable[[list[Any]], Sequence[Any]],
    report: Callable[[str], None], done: Callable[[], None],
) -> Callable[[list[Any]], Sequence[Any]]:  # fmt: skip
    """Run the graph in the simulator, or through ATen on a fault or if the simulation would take too long.

    Args:
        program: The graph.
        written: Positions of inputs that it writes to.
        reference: The graph through ATen.
        report: Gets the reason where that runs.
        done: Called after a simulation.
    """

    def run(arguments: list[Any]) -> Sequence[Any]:
        inputs = list(arguments)
        # A fault comes in the middle: what the kernels before it wrote to inputs has to be undone,
        # and so has what they drew, for ATen to begin where the graph began.
        before = {at: inputs[at].detach().clone() for at in written if isinstance(inputs[at], torch.Tensor)}
        random_state = torch.get_rng_state()
        try:
            results: Sequence[Any] = program.boxed(arguments)
        except (Fault, simulated.TooLong, UnsupportedInstruction) as reason:
            for at, content in before.items():
                inputs[at].data.copy_(content)
            torch.set_rng_state(random_state)
            arguments.clear()
            if program.has_users_kernels:
                raise  # of the user's own code, which nothing else can run here
            results = reference(inputs)  # an index that is out of bounds is an error here, too
            report(str(reason))
            if isinstance(reason, simulated.TooLong) and program.launches:
                done()  # figures of the launches before it, and of its own if programs of it were simulated
            return results
        done()
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    torch_internals.hide_from_hook(run.__code__)
    return run
