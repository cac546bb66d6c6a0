"""The fusion log: every pair of neighbours, fused or not, the reason, and the memory traffic that is saved.

    mm    + add     not fused   aten.mm runs by itself: a tuned library comes near the hardware's limit
    add   + relu    fused       relu reads add where it is computed       2 x 4 MB: neither written nor read
    relu  + amax    not fused   it reduces along other loops than the kernel

Neighbours are a producer and its consumers, and two consecutive readers of one buffer. Fusion attempts far fewer pairs
than that, and some more than once; its attempts and their reasons are looked up here.

In torch: torch/_inductor/scheduler.py (score_fusion_memory, the log "fusion"). Read next: nbcompile/scheduling/build.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nbcompile.ir.buffer import Buffer, Extern, ExternOutput, GraphAttribute, GraphInput, LoopBuffer, Program, Scatter
from nbcompile.ir.index import constant, product
from nbcompile.ir.kernel import Kernel
from nbcompile.record.model import FusionDecision
from nbcompile.scheduling.dependencies import reads

Launch = Kernel | Extern


def fusion_log(
    program: Program, launches: Sequence[Launch], attempts: Iterable[FusionDecision]
) -> tuple[FusionDecision, ...]:
    """One entry for each pair of neighbours, in the order of the program."""
    return tuple(_FusionLog(program, launches, attempts).entries())


class _FusionLog:
    def __init__(self, program: Program, launches: Sequence[Launch], attempts: Iterable[FusionDecision]) -> None:
        self.program = program
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.kernel_of = {name: kernel for kernel in launches if isinstance(kernel, Kernel) for name in kernel.buffers}
        self.reasons: dict[tuple[str, str, bool], str] = {}
        self.rejected: dict[tuple[str, str], str] = {}
        for decision in attempts:
            self.reasons[decision.first, decision.second, decision.fused] = decision.reason
            # An attempt through one member of a group is an answer for the whole group.
            if not decision.fused:
                self.rejected[self._kernel_name(decision.first), decision.second] = decision.reason
        self.unwritten: set[str] = set()

    def entries(self) -> Iterator[FusionDecision]:
        last_reader: dict[str, str] = {}
        for buffer in self.program.buffers:
            if isinstance(buffer, (GraphInput, GraphAttribute, ExternOutput)):
                continue
            produced: dict[str, list[str]] = {}
            shared: dict[str, list[str]] = {}
            for name in reads(buffer):
                if not self._is_input(name):
                    produced.setdefault(self._producer(name), []).append(name)
                if name in last_reader and not isinstance(buffer, Extern):
                    shared.setdefault(last_reader[name], []).append(name)
                if not isinstance(buffer, Extern):
                    last_reader[name] = buffer.name
            # A pair may both produce and share: one entry for it.
            for first in dict.fromkeys((*produced, *shared)):
                yield self._entry(first, buffer, produced.get(first, []), shared.get(first, []))

    def _is_input(self, name: str) -> bool:
        return isinstance(self.buffers.get(name), (GraphInput, GraphAttribute))

    def _producer(self, name: str) -> str:
        """The call behind one of its results."""
        buffer = self.buffers[name]
        return buffer.extern if isinstance(buffer, ExternOutput) else name

    def _kernel_name(self, name: str) -> str:
        kernel = self.kernel_of.get(name)
        return kernel.name if kernel is not None else name

    def _entry(self, first: str, second: Buffer, produced: list[str], shared: list[str]) -> FusionDecision:
        kernel = self.kernel_of.get(first)
        if kernel is None or second.name not in kernel.buffers:
            return FusionDecision(first, second.name, False, self._why_apart(first, second), 0)
        plain = f"{second.name} reads {first} where it is computed" if produced else f"both read {', '.join(shared)}"
        reason = self.reasons.get((first, second.name, True), plain)
        parts = [
            *(self._saved(name, kernel, False) for name in produced),
            *(self._saved(n, kernel, True) for n in shared),
        ]
        known = [part for part in parts if part is not None]
        return FusionDecision(first, second.name, True, reason, sum(known) if len(known) == len(parts) else None)

    def _why_apart(self, first: str, second: Buffer) -> str:
        for buffer in (self.buffers[first], second):
            if isinstance(buffer, Extern):
                return f"{buffer.target} runs by itself: {buffer.reason}"
            if isinstance(buffer, Scatter):
                return "a scatter is a kernel of its own"
        exact = self.reasons.get((first, second.name, False)) or self.rejected.get(
            (self._kernel_name(first), second.name)
        )
        if exact is not None:
            return exact
        # The groups of both were tried through other members.
        home, members = self._kernel_name(first), self._members(second.name)
        for name in members:
            if (home, name) in self.rejected:
                return f"{name} of the same kernel cannot: {self.rejected[home, name]}"
        second_home = self._kernel_name(second.name)
        for name in self._members(first):
            if (second_home, name) in self.rejected:
                return f"{name} of the same kernel cannot: {self.rejected[second_home, name]}"
        return f"{second.name} is in a kernel with what it shares more with"

    def _members(self, name: str) -> Sequence[str]:
        kernel = self.kernel_of.get(name)
        return kernel.buffers if kernel is not None else (name,)

    def _saved(self, name: str, kernel: Kernel, shared: bool) -> int | None:
        """Bytes: one read less; and no write, if nothing outside the kernel reads it (counted with the first pair)."""
        buffer = self.buffers[name]
        count = constant(product(buffer.layout.size)) if isinstance(buffer, (LoopBuffer, GraphInput)) else None
        size = None if count is None else count * buffer.dtype.itemsize  # type: ignore[union-attr]
        if size is None or shared:
            return size
        #     x of 4 MB, only read in this kernel    not written, not read: 8 MB
        #     x that is returned as well             written all the same: 4 MB
        written = name in kernel.writes or name in self.unwritten
        self.unwritten.add(name)
        return size * ((name not in kernel.reads) + (not written))
