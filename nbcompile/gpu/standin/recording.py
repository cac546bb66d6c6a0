"""Operators of eager mode inside the capture of a CUDA graph, on the stand-in device.

    calls.is_capturing(0)                       a launch on the current stream is recorded, and does not run
    calls.record(operator, given, named, ...)   results with memory and without content; a replay computes them

On a GPU such an operator launches kernels of torch's own, which the capture records with the addresses that they were
given. Here it is a function of the CPU, recorded with its arguments' addresses: a replay runs it on what is there then,
and fails like an illegal access where nothing is allocated any more.

In torch: nothing. Read next: nbcompile/gpu/standin/driver.c
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from nbcompile.gpu import random_draws
from nbcompile.gpu.standin.driver import StandInDriver

ILLEGAL_ACCESS = 700
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
WAITING = frozenset((torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape))
"""Tags of operators by which the CPU waits for a result."""
RANDOM = "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture"


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call."""

    run: Callable[[], object]
    memory: tuple[tuple[int, int], ...]
    """Address and bytes of each tensor that it reads or writes."""


class CapturedCalls:
    """The calls that graphs of the stand-in driver refer to by number."""

    def __init__(self, driver: StandInDriver, module: ModuleType) -> None:
        self.driver = driver
        self.module = module
        self.calls: list[Call] = []
        self.reasons: list[str] = []
        """Messages about calls that failed in a replay."""
        driver.set_host_function(self._run)

    def is_capturing(self, device: int) -> bool:
        """Return whether the current stream of a device records."""
        return self.driver.is_capturing(self.module.current_stream(device))

    def add(self, device: int, run: Callable[[], object], tensors: Sequence[torch.Tensor]) -> None:
        """Add a call to the capture of the current stream."""
        memory = tuple((each.untyped_storage().data_ptr(), each.untyped_storage().nbytes()) for each in tensors)
        self.calls.append(Call(run, tuple(row for row in memory if row[1])))
        self.driver.capture_call(self.module.current_stream(device), len(self.calls) - 1)

    def add_to_stream(self, stream: int, run: Callable[[], object], tensors: Sequence[torch.Tensor]) -> None:
        """Submit a call to any stream: it is recorded, deferred, or done now."""
        memory = tuple((each.untyped_storage().data_ptr(), each.untyped_storage().nbytes()) for each in tensors)
        self.calls.append(Call(run, tuple(row for row in memory if row[1])))
        self.driver.run_on(stream, len(self.calls) - 1)

    def record(
        self, device: int, operator: Any, given: Sequence[Any], named: Mapping[str, Any],
        make: Callable[[torch.Tensor], torch.Tensor], on_cpu: Callable[[torch.Tensor], torch.Tensor],
    ) -> Any:  # fmt: skip
        """Record a call of an operator.

        Args:
            device: Number of the device.
            operator: Any operator.
            given: Its arguments; tensors on the CPU over the memory of the device's.
            named: The same by name.
            make: A tensor on the device of the layout of another tensor.
            on_cpu: A tensor on the CPU over the memory of one of the device.

        Returns:
            The operator's result; an argument that it returns is that of ``given``.

        Raises:
            RuntimeError: as on a GPU, where it draws random numbers, or waits for a result.
        """
        if random_draws.draws(operator, given, named):
            raise RuntimeError(RANDOM)
        if WAITING.intersection(operator.tags):
            raise RuntimeError(NOT_PERMITTED)
        samples: dict[int, torch.Tensor] = {}

        def sample(tensor: torch.Tensor) -> torch.Tensor:
            created = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).zero_()
            return samples.setdefault(id(tensor), created)

        tensors = [each for each in pytree.tree_leaves((given, named)) if isinstance(each, torch.Tensor)]
        arguments, keywords = pytree.tree_map_only(torch.Tensor, sample, (given, named))
        shapes = operator(*arguments, **keywords)  # of zeros: only the layouts of its results are looked at
        # A sample in the result is an argument that the operator returns (in place, out=).
        returned = {id(samples[id(each)]): each for each in tensors}
        results: list[torch.Tensor | None] = []

        def result(shape: torch.Tensor) -> torch.Tensor:
            if id(shape) in returned:
                results.append(None)
                return returned[id(shape)]
            created = make(shape)
            results.append(on_cpu(created))
            return created

        returned_value = pytree.tree_map_only(torch.Tensor, result, shapes)

        def run() -> None:
            computed = [
                leaf for leaf in pytree.tree_leaves(operator(*given, **named)) if isinstance(leaf, torch.Tensor)
            ]
            for into, value in zip(results, computed, strict=True):
                if into is not None:
                    into.copy_(value)

        self.add(device, run, [*tensors, *(each for each in results if each is not None)])
        return returned_value

    def _run(self, number: int) -> int:
        call, blocks = self.calls[number], self.driver.blocks()
        for start, size in call.memory:
            # The recording refers to memory by address only, as a real one does: freed memory is an
            # error here, where a GPU might read what is there now.
            if not any(first <= start and start + size <= first + extent for first, extent in blocks):
                self.reasons.append(
                    f"call {number} of a graph uses {size} bytes at {start:#x}, which are not allocated"
                )
                return ILLEGAL_ACCESS
        with torch.no_grad():
            call.run()
        return 0
