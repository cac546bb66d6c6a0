"""A graph's Triton kernels, compiled for a GPU and simulated on the CPU: a callable, and what each launch costs.

    program = load(triton.emit(schedule), CHIPS["sm_90"])
    program(x)                                  eager's results, out of the code for the GPU
    program.launches[0].costs.coalescing        0.9

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbcompile import torch_internals
from nbcompile.gpu import costs, cubins, estimate, predict, ptx, simulator
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import POINTER_BYTES, MachineCode
from nbcompile.gpu.memory import GlobalMemory
from nbcompile.gpu.tiles import Tile
from nbcompile.ir.compiled_artifact import Runnable
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.lowering import user_kernels
from nbcompile.runtime.gpu_launcher import grid_function
from nbcompile.runtime.program import Attribute, PythonWrapper, expect


class CannotLoad(RuntimeError):
    """Some kernels cannot be compiled or simulated: ``reasons`` by the kernel's name."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(dict.fromkeys(reasons.values())))
        self.reasons = reasons


class TooLong(RuntimeError):
    """A simulation that would take longer than is allowed; the message predicts how long."""


SAMPLE_SECONDS = 60.0
"""Limit of the simulation of a sample, whatever the limit of a whole launch is."""


@dataclass(frozen=True, slots=True)
class ReadyKernel:
    """A kernel that can be launched."""

    kernel: EmittedKernel
    built: MachineCode
    function: ptx.Function
    first_line: int
    """Line of its module at which the kernel's own text begins."""
    scratch: int = 0
    """Bytes of memory that each program needs for itself."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel."""

    kernel: EmittedKernel
    built: MachineCode
    grid: int
    """Number of blocks."""
    lines: Mapping[int, costs.Costs]
    """Costs by the line of the kernel's module."""
    times: predict.Times
    touched: int
    """Bytes that are read or written, each counted once."""
    tiles: tuple[Tile, ...] = ()
    """Programs that access each tensor."""

    @property
    def costs(self) -> costs.Costs:
        """Costs of all lines."""
        return costs.total(self.lines.values())


@dataclass(slots=True)
class SimulatedGraph:
    """The graph as a callable over CPU tensors."""

    wrapped: PythonWrapper
    kernels: Mapping[str, ReadyKernel]
    launches: list[Launch] = field(default_factory=list)
    """Simulations of the last call, in order."""

    @property
    def has_users_kernels(self) -> bool:
        """Return whether the program launches Triton kernels of the user's."""
        launches = (each for each in self.wrapped.emitted.externs if torch_internals.is_kernel_launch(each.target))
        return any(launch.reason == user_kernels.REASON for launch in launches)

    def __call__(self, *inputs: object) -> tuple[object, ...]:
        """Run the graph.

        Raises:
            Fault: a kernel accesses memory outside of all tensors, or has a race.
            TooLong: the simulation would take longer than is allowed.
        """
        return self.boxed(list(inputs))

    def boxed(self, inputs: list[object]) -> tuple[object, ...]:
        """Boxed calling convention: the list of arguments is cleared."""
        self.launches.clear()
        return self.wrapped(inputs)


@dataclass(frozen=True, slots=True)
class SimulationBudget:
    """The time that a simulated call may take, and what is simulated of a launch that would take longer."""

    seconds: float = float("inf")
    """Limit of the duration of a launch."""
    sample: int = 0
    """Number of programs of a launch that are simulated if all would take too long; 0: none."""


UNLIMITED = SimulationBudget()
UserKernel = Callable[[str, Chip, list[Launch], dict[str, ReadyKernel], float], Callable[..., None]]


def load(
    emitted: Runnable, chip: Chip, attribute: Attribute, constants: Mapping[int, object] | None = None,
    budget: SimulationBudget = UNLIMITED, user_kernel: UserKernel | None = None,
) -> SimulatedGraph:  # fmt: skip
    """Compile every kernel for a chip.

    Args:
        emitted: Triton's text and the wrapper.
        chip: The GPU for which they are compiled.
        attribute: Reads a tensor of the graph's own.
        constants: Arguments of operators that have no text in the wrapper.
        budget: Limit of the duration of a call, and what is simulated beyond it.
        user_kernel: Makes a callable of a launch of the user's own Triton kernel.

    Raises:
        CannotLoad: some kernels have no machine code, or one that the simulator cannot run.
        NoTools: no kernel can be compiled.
    """
    requests = [cubins.Request(kernel, chip.name) for kernel in emitted.kernels]
    try:
        compiled = cubins.obtain(requests)
    except cubins.CannotCompile as reason:
        raise CannotLoad(reason.reasons) from reason
    ready: dict[str, ReadyKernel] = {}
    failed: dict[str, str] = {}
    for request, cubin in zip(requests, compiled, strict=True):
        try:
            ready[request.kernel.name] = _ready(request, cubin)
        except ptx.UnsupportedInstruction as reason:
            failed[request.kernel.name] = str(reason)
    if failed:
        raise CannotLoad(failed)
    launches: list[Launch] = []
    launchers = {name: _launcher(each, chip, launches, budget) for name, each in ready.items()}
    functions: dict[str, Callable[..., None]] = dict(launchers)
    for extern in emitted.externs:
        if user_kernel is not None and torch_internals.is_kernel_launch(extern.target):
            functions[f"{extern.name}_target"] = user_kernel(extern.name, chip, launches, ready, budget.seconds)
    wrapped = PythonWrapper(
        emitted, {**functions, "empty_strided": _on_the_cpu, "expect": _expect}, attribute, constants or {}
    )
    return SimulatedGraph(wrapped, ready, launches)


def _on_the_cpu(size: tuple[int, ...], stride: tuple[int, ...], *, dtype: torch.dtype, device: str = "") -> object:
    """Allocate a tensor on the CPU that the wrapper allocates on the GPU."""
    del device
    return torch.empty_strided(size, stride, dtype=dtype)


def _expect(*arguments: Any, device: str = "", **keywords: Any) -> object:
    """Check an input that the wrapper takes to be on the GPU, and that is on the CPU."""
    del device
    return expect(*arguments, **keywords)


def _ready(request: cubins.Request, cubin: cubins.Cubin) -> ReadyKernel:
    function = ptx.parse(cubin.ptx)
    simulator.expect_supported(function)
    return ReadyKernel(request.kernel, cubin.machine_code, function, request.first_line, cubin.image.scratch)


def _launcher(ready: ReadyKernel, chip: Chip, launches: list[Launch], budget: SimulationBudget) -> Callable[..., None]:
    kernel, built = ready.kernel, ready.built
    seconds, sample = budget.seconds, budget.sample
    grid_of, rounds_of = grid_function(kernel), estimate.rounds(kernel)
    tensors = len(kernel.arguments)
    has_figures = False

    def launch(*arguments: object) -> None:
        nonlocal has_figures
        sizes = arguments[tensors:]
        blocks = grid_of(*sizes)
        # Before anything is written: a simulation that was stopped midway would leave results half done.
        predicted = estimate.seconds(ready.function, blocks, rounds_of(*sizes), built.shared_bytes)
        given = [value for value in arguments[:tensors] if isinstance(value, torch.Tensor)]
        numbers = [int(value) for value in sizes]  # type: ignore[call-overload]
        if predicted <= seconds:
            launches.append(_simulated(ready, chip, blocks, given, numbers))
            return
        # tools/diagnose/ablate.py searches for the end of each of these messages.
        text, limit = f"to simulate {kernel.name} would take {predicted:,.3g} seconds", f"{seconds:,.3g} are allowed"
        if not sample:
            raise TooLong(f'{text} (options={{"simulated_programs": 64}} has figures of a sample), and {limit}')
        programs = min(sample, blocks)
        needed = estimate.seconds(ready.function, programs, rounds_of(*sizes), built.shared_bytes)
        if needed > max(seconds, SAMPLE_SECONDS):
            raise TooLong(f"{text} ({needed:,.3g} for {programs} of its {blocks} programs), and {limit}")
        # On copies, since the results are not those of the whole launch; and once, since later calls need no figures.
        if not has_figures:
            has_figures = True
            launches.append(_simulated(ready, chip, blocks, copied(given), numbers, programs))
        raise TooLong(f"{text} ({programs} of its {blocks} programs were simulated), and {limit}")

    return launch


def _simulated(
    ready: ReadyKernel, chip: Chip, blocks: int, given: Sequence[torch.Tensor], numbers: list[int], sample: int = 0
) -> Launch:
    kernel, built = ready.kernel, ready.built
    # If eager mode does not define which of several stores is the last, two of them are no race.
    memory = GlobalMemory(not kernel.any_order)
    #     x[1:] of float32    begins at 4 bytes: a copy replaces it, and is copied back
    aligned_inputs = [aligned(value) for value in given]
    addresses = [memory.copy_in(value, name) for (value, _), name in zip(aligned_inputs, kernel.arguments, strict=True)]
    if ready.scratch:
        numbers = [*numbers, memory.take_scratch(ready.scratch * blocks)]
    chosen = np.unique(np.linspace(0, blocks - 1, sample).astype(np.int64)) if sample else None
    ran = simulator.run(ready.function, blocks, [*addresses, *numbers], memory, built.shared_bytes, chosen=chosen)
    for value, original in aligned_inputs:
        if original is not None:
            original.copy_(value)
    lines, touched = ran.lines, memory.touched()
    if chosen is not None and len(chosen):
        scale = blocks / len(chosen)
        lines = {line: costs.scaled(known, scale) for line, known in lines.items()}
        # What all programs of a sample read is not more for all of them: no more than the tensors have.
        # (Of an expanded tensor many elements are one in memory.)
        most = sum(min(value.numel(), _span(value)) * value.element_size() for value in given if value.numel())
        touched = min(round(touched * scale), most)
    times = predict.times(built, blocks, costs.total(lines.values()), ran.waits, touched, chip)
    accessed = tuple(each.tile() for each in memory.watches.values() if each.is_read or each.is_written)
    return Launch(kernel, built, blocks, lines, times, touched, accessed)


def aligned(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Tensor with the alignment that kernels rely on; if it is a copy, also the tensor to write back to.

    What is between its elements comes along.
    """
    offset = int(tensor.storage_offset())
    if offset * tensor.element_size() % POINTER_BYTES == 0 or tensor.numel() == 0:
        return tensor, None
    # A kernel's arguments are strides of the original, so the copy has the same gaps.
    original = tensor.detach().as_strided((_span(tensor),), (1,), offset)
    return original.clone(), original


def _span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last in memory, of a tensor that has any."""
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def copied(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors with memory of their own; those that share memory share the copy's."""
    storages: dict[int, torch.Tensor] = {}
    copies = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            # By storage: tensors that overlap have to overlap in the copies, too.
            storages[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage).clone()
        whole = storages[storage.data_ptr()].untyped_storage()
        view = torch.empty(0, dtype=tensor.dtype)
        copies.append(view.set_(whole, tensor.storage_offset(), tensor.shape, tensor.stride()))
    return copies
