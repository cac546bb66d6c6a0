"""A process group of one process on the stand-in device, whose collectives run on a stream of their own, as NCCL's do.

    group = StreamGroup(here, size=2)
    collective            the group's stream waits for the current one; the collective; an event
    work.wait()           the current stream waits for that event, and the CPU continues

Every other rank is taken to have this rank's tensors: a sum over two ranks is twice the tensor. What the driver's log
does not show is when a GPU runs a collective: early (``late=False``: when it is issued) or as late as the waits allow.
A program that is right both ways waits where it must, and writes to no memory that a collective still reads.

In torch: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. Read next: nbcompile/gpu/standin/driver.c
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from nbcompile import torch_internals
from nbcompile.gpu.standin.device import StandIn, on_cpu

Tensors = Sequence[torch.Tensor]


class StreamWork(dist.distributed_c10d.Work):
    """A collective that was issued."""

    def __init__(self, group: StreamGroup, done: torch.Event, held: Tensors) -> None:
        super().__init__()
        self.group, self.done, self.held = group, done, held

    def wait(self, timeout: Any = None) -> bool:
        """Make the current stream wait."""
        self.group.current_stream().wait_event(self.done)
        # After the wait, torch's allocator may reuse their memory for the next work of this stream.
        self.held = ()
        return True

    def is_completed(self) -> bool:
        """Return whether it is done."""
        return bool(self.done.query())


class StreamGroup(dist.ProcessGroup):
    """The group; its backend's name is that of the one it behaves like."""

    def __init__(self, here: StandIn, size: int = 2, *, late: bool = True, keep: bool = True) -> None:
        super().__init__(0, size)  # type: ignore[call-arg]
        self.here, self.world, self.late = here, size, late
        self.keep = keep
        """A collective keeps its tensors alive until the wait, as NCCL's does."""
        self.stream = torch.Stream(device="cuda:0")
        self.works: list[StreamWork] = []

    def getBackendName(self) -> str:
        """Name of the backend."""
        return "nccl"

    def current_stream(self) -> torch.Stream:
        """Torch's current stream of the device."""
        number = self.here.module.current_stream(0)
        return torch.Stream(stream_id=number, device_index=0, device_type=torch._C._autograd.DeviceType.CUDA.value)

    @contextmanager
    def installed(self, name: str = "0") -> Iterator[StreamGroup]:
        """The group under a name, by which operators find it."""
        groups: Any = distributed_c10d
        groups._register_process_group(name, self)
        # C++ code calls only some collectives of a group that is written in Python: for the others the operator is
        # replaced.
        operators = torch.library.Library("_c10d_functional", "IMPL", "CUDA")
        operators.impl("all_gather_into_tensor", self._all_gather)
        operators.impl("reduce_scatter_tensor", self._reduce_scatter)
        try:
            with self.here.driver.held(self.stream.stream_id) if self.late else nullcontext():
                yield self
        finally:
            operators._destroy()
            groups._unregister_process_group(name)

    def _issue(self, run: Callable[[], object], tensors: Tensors, opts: Any = None) -> StreamWork:
        # As NCCL's: a call that is not to return before it is done runs on the current stream.
        stream = self.stream if opts is None or opts.asyncOp else self.current_stream()
        # Two events: the collective begins after all earlier work of the current stream, and what waits for
        # the second one continues when the collective is done.
        begin, done = torch.Event(device="cuda:0"), torch.Event(device="cuda:0")
        begin.record(self.current_stream())
        stream.wait_event(begin)
        # Separate tensors, as the memory of the caller's may be replaced.
        memory = tuple(tensor.detach() for tensor in tensors) if self.keep else ()
        self.here.calls.add_to_stream(stream.stream_id, run, tensors)
        done.record(stream)
        return StreamWork(self, done, memory)

    def allreduce(self, tensors: Tensors, opts: Any = None) -> StreamWork:  # type: ignore[override]
        """Sum, or another reduction, over the ranks."""
        mine = [on_cpu(tensor) for tensor in tensors]
        reduced = _reduction("sum" if opts is None else opts.reduceOp.op.name.lower())

        def run() -> None:
            for tensor in mine:
                tensor.copy_(reduced(tensor, self.world))

        return self._issue(run, tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> StreamWork:
        """Sums of several tensors."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> StreamWork:  # type: ignore[override]
        """Rank 0 is this one."""
        return self._issue(lambda: None, tensors, opts)

    def _all_gather(self, given: torch.Tensor, size: int, name: str) -> torch.Tensor:
        output = given.new_empty(size * given.shape[0], *given.shape[1:])
        into, source = on_cpu(output), on_cpu(given)
        work = self._issue(lambda: _repeat(into, source, self.world), [output, given])
        torch._C._distributed_c10d._register_work(output, work)
        return output

    def _reduce_scatter(self, given: torch.Tensor, operation: str, size: int, name: str) -> torch.Tensor:
        output = given.new_empty(given.shape[0] // size, *given.shape[1:])
        into, source, reduced = on_cpu(output), on_cpu(given), _reduction(operation)
        work = self._issue(lambda: into.copy_(reduced(source[: into.shape[0]], self.world)), [output, given])
        torch._C._distributed_c10d._register_work(output, work)
        return output


def _reduction(operation: str) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Function of one rank's tensor and their number: what an operation makes of so many equal tensors."""
    if operation in ("avg", "max", "min"):
        return lambda tensor, world: tensor
    functions: dict[str, Callable[..., torch.Tensor]] = {"sum": torch.mul, "product": torch.pow}
    if operation not in functions:
        raise NotImplementedError(f"the stand-in process group has no reduction {operation!r}")
    return functions[operation]


def _repeat(into: torch.Tensor, source: torch.Tensor, times: int) -> None:
    into.view(times, -1).copy_(source.flatten().expand(times, -1))


# They run within compiled calls: nothing of them is to be compiled.
for _function in (*vars(StreamGroup).values(), *vars(StreamWork).values()):
    if isinstance(_function, FunctionType):
        torch_internals.hide_from_hook(_function.__code__)
