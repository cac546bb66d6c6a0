"""A graph's Triton kernels, compiled for a GPU and simulated on the CPU: a callable, and what each launch costs.

    program = load(triton.emit(schedule), schedule, CHIPS["sm_90"])
    program(x)                                  eager's results, out of the code for the GPU
    program.launches[0].costs.coalescing        0.9

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import torch

from nbcompile.codegen.triton import signature
from nbcompile.gpu import costs, ptx, simulator
from nbcompile.gpu.build import Built, build
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.memory import GlobalMemory
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.kernel import Kernel, Schedule, Update
from nbcompile.runtime.program import Attribute, Wrapped
from nbcompile.runtime.triton import load_source
from nbcompile.scheduling.loops import statements


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel."""

    kernel: EmittedKernel
    built: Built
    grid: int
    """Blocks."""
    lines: Mapping[int, costs.Costs]
    """By the line of the generated module."""

    @property
    def costs(self) -> costs.Costs:
        """Of all lines."""
        return costs.total(self.lines.values())


@dataclass(slots=True)
class Simulated:
    """The graph as a callable over CPU tensors."""

    wrapped: Wrapped
    launches: list[Launch] = field(default_factory=list)
    """Of all calls, in order."""

    def __call__(self, *inputs: object) -> tuple[object, ...]:
        """Run the graph.

        Raises:
            Fault: a kernel accesses what is no tensor's, or races.
        """
        return self.wrapped.positional(*inputs)


def load(
    emitted: EmittedProgram, schedule: Schedule, chip: Chip, attribute: Attribute,
    constants: Mapping[int, object] | None = None,
) -> Simulated:  # fmt: skip
    """Compile every kernel for a chip."""
    module = load_source(emitted.source)
    launches: list[Launch] = []
    kernels = {kernel.name: _launcher(module, kernel, schedule, chip, launches) for kernel in emitted.kernels}
    return Simulated(Wrapped(emitted, kernels, attribute, constants or {}), launches)


def _launcher(
    module: ModuleType, kernel: EmittedKernel, schedule: Schedule, chip: Chip, launches: list[Launch]
) -> Callable[..., None]:
    built = build(getattr(module, kernel.name), signature(kernel, schedule), chip)
    function, grid_of = ptx.parse(built.ptx), getattr(module, f"{kernel.name}_grid")
    check_races = not _stores_in_any_order(next(part for part in schedule.kernels() if part.name == kernel.name))

    def launch(*arguments: object) -> None:
        memory = GlobalMemory(check_races)
        names = (*kernel.arguments, *kernel.sizes)
        given = [
            memory.place(value, name) if isinstance(value, torch.Tensor) else int(value)  # type: ignore[call-overload]
            for value, name in zip(arguments, names, strict=True)
        ]
        (blocks,) = grid_of(*arguments[len(kernel.arguments) :])
        lines = simulator.run(function, blocks, given, memory, built.shared_bytes)
        launches.append(Launch(kernel, built, blocks, lines))

    return launch


def _stores_in_any_order(kernel: Kernel) -> bool:
    """Whether several elements may be stored to one address; any of them may be the last, in eager mode too."""
    return any(isinstance(part, Update) and part.kind in ("store", "any") for part in statements(kernel))
