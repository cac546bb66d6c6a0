"""The user's Triton kernels in the simulator: CPU tensors, code for a GPU that is not here.

    run = SimulatedKernel("extern0", CHIPS["sm_90"], launches, ready)
    run(kernel_idx=0, constant_args_idx=0, grid=[(3, 1, 1)], tma_descriptor_metadata={}, kwargs={"x": x, "out": out})
    launches[-1].times.predicted

In torch: nothing. Read next: nbcompile/gpu/user_kernels.py
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nbcompile.capture.triton_kernels import function_of
from nbcompile.gpu import costs, estimate, predict, ptx, simulated, simulator, user_kernels
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import POINTER_BYTES
from nbcompile.gpu.memory import GlobalMemory, Race
from nbcompile.gpu.user_kernels import Form, Given, Grid
from nbcompile.gpu.values import Array
from nbcompile.ir.emitted import EmittedKernel


@dataclass(slots=True)
class SimulatedKernel:
    """One launch of the plan as a callable, with the arguments of torch's operator."""

    name: str
    """Name of the call in the plan."""
    chip: Chip
    launches: list[simulated.Launch]
    """Each launch is appended to it."""
    ready: MutableMapping[str, simulated.ReadyKernel]
    """Compiled kernels by name; each is added when it is compiled."""
    seconds: float = float("inf")
    """Limit of the duration of a simulation."""
    chosen: dict[object, int] = field(default_factory=dict)
    """Position of the best configuration of a kernel that is tuned, by the values of its key."""

    def __call__(
        self, *, kernel_idx: int, constant_args_idx: int, grid: Sequence[Grid], tma_descriptor_metadata: object,
        kwargs: Given,
    ) -> None:  # fmt: skip
        """Simulate.

        Raises:
            CannotBuild: Triton cannot compile it.
            UnsupportedInstruction: the simulator lacks an instruction of it.
            Fault: it accesses memory outside of all tensors, or has a race.
            TooLong: the simulation would take longer than is allowed.
        """
        del tma_descriptor_metadata
        kernel, constants = user_kernels.of_table(kernel_idx, constant_args_idx)
        given = {**kwargs, **constants}
        configs = user_kernels.configurations(kernel)
        at = self._choice(kernel, configs, grid, given) if len(configs) > 1 else 0
        self.launches.append(self._run(kernel, {**given, **configs[at]}, grid[at]))

    def _choice(self, kernel: Any, configs: Sequence[Mapping[str, Any]], grids: Sequence[Grid], given: Given) -> int:
        """Position of the configuration whose launch is predicted to be the shortest."""
        # As Triton's own key: values of the named arguments, and types of all tensors.
        key = (*(given.get(name) for name in kernel.keys if not isinstance(given.get(name), torch.Tensor)),
               *(value.dtype for value in given.values() if isinstance(value, torch.Tensor)))  # fmt: skip
        if key not in self.chosen:
            times = []
            for config, grid in zip(configs, grids, strict=True):
                # Each configuration runs on fresh copies: the next one must not read results of the previous one.
                copies = _copies(given)
                times.append(self._run(kernel, {**copies, **config}, grid).times.predicted)
            self.chosen[key] = times.index(min(times))
            for name in getattr(kernel, "reset_to_zero", None) or ():  # as Triton does after it has measured
                given[name].zero_()
        return self.chosen[key]

    def _run(self, kernel: Any, given: Given, grid: Grid) -> simulated.Launch:
        function = function_of(kernel)
        form = user_kernels.form_of(function, given, _is_aligned)
        ready = self._prepared(form)
        width, height, depth = map(int, grid)
        blocks = width * height * depth
        # The trip count of a user's loop is unknown: at least one.
        predicted = estimate.seconds(ready.function, blocks, 1, ready.built.shared_bytes)
        if predicted > self.seconds:
            raise simulated.TooLong(
                f"to simulate {function.__name__} would take {predicted:,.0f} seconds, and {self.seconds:,.0f} are "
                "allowed"
            )
        ran, memory = _simulated(ready, form, given, (width, height, depth))
        touched = memory.touched()
        times = predict.times(ready.built, blocks, costs.total(ran.lines.values()), ran.waits, touched, self.chip)
        accessed = tuple(watch.tile() for watch in memory.watches.values() if watch.is_read or watch.is_written)
        return simulated.Launch(ready.kernel, ready.built, blocks, ran.lines, times, touched, accessed)

    def _prepared(self, form: Form) -> simulated.ReadyKernel:
        code = user_kernels.built(form, self.chip)
        function = ptx.parse(code.ptx)
        simulator.expect_supported(function)
        source = form.function.src
        names = tuple(name for name, kind in form.signature if kind.startswith("*"))
        kernel = EmittedKernel(self.name, form.function.__name__, source, names, language="triton")
        # starting_line_number is that of the decorator, and the text that is shown begins at "def".
        before = form.function.raw_src if isinstance(form.function.raw_src, str) else "".join(form.function.raw_src)
        first_line = form.function.starting_line_number + before[: before.index("def ")].count("\n")
        self.ready[self.name] = simulated.ReadyKernel(kernel, code, function, first_line)
        return self.ready[self.name]


def _simulated(
    ready: simulated.ReadyKernel, form: Form, given: Given, grid: tuple[int, int, int]
) -> tuple[simulator.Simulation, GlobalMemory]:
    """Simulate; where there is a race, once more, without what is read by warps that write nothing.

    If a block has fewer elements than threads, every warp loads all of them in Triton's code, and one warp stores. In a
    kernel that works in place, the others may load what was stored already, and do not use it.
    """
    width, height, depth = grid
    kinds = dict(form.signature)

    def attempt(check_races: bool, idle: Sequence[Array]) -> tuple[simulator.Simulation, GlobalMemory]:
        memory = GlobalMemory(check_races)
        arguments = [
            memory.copy_in(given[name], name)
            if isinstance(given[name], torch.Tensor)
            else user_kernels.bits(given[name], kinds[name])
            for name in form.parameters
        ]
        blocks, shared_bytes = width * height * depth, ready.built.shared_bytes
        return simulator.run(ready.function, blocks, arguments, memory, shared_bytes, width, height, idle), memory

    #     1  check for races                          mostly the end
    #     2  if there is one: without the check       which warps write?
    #     3  with the check, readers that never write left out
    # Memory is restored between two runs.
    before = _copies(given)
    try:
        return attempt(True, ())
    except Race:
        _restore(given, before)
        ran, _ = attempt(False, ())
        _restore(given, before)
        return attempt(True, [~writing for writing in ran.writing])


def _restore(given: Given, before: Given) -> None:
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            # Whole storages, as a kernel may write outside of a view.
            value.untyped_storage().copy_(before[name].untyped_storage())


def _is_aligned(tensor: torch.Tensor) -> bool:
    return int(tensor.storage_offset()) * tensor.element_size() % POINTER_BYTES == 0


def _copies(given: Given) -> dict[str, Any]:
    """The arguments, with tensors of their own."""
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    return dict(given) | dict(zip(tensors, simulated.copied(list(tensors.values())), strict=True))
