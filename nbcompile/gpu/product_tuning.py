"""Measured times of the candidates of a matrix product, on the GPU that is here; kept in the kernel store.

    Benchmark(gpu, "sm_90")(kernel, planned, parts, candidates)
    ->  64x128x64, 4 warps, 4 stages: 21.4 us; library: 24.0 us; ...

The best candidates by the model are compiled side by side by the worker processes, and launched on tensors of the right
layouts. The library's product is the node's own operator; for other kernels that it needs, the prediction is used.
Measured times are stored for the next process: the key has the chip, the kernel's text (sizes, strides, epilogue), the
types, and the versions of Triton and torch.

In torch: torch/_inductor/select_algorithm.py (benchmark), autotune_process.py. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import functools
import json
import operator
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.codegen import triton
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.gpu import cubins
from nbcompile.gpu.size_hints import SizeHints
from nbcompile.gpu.templates import Candidate
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.index import index
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.ir.layout import Layout, of_tensor
from nbcompile.runtime import store
from nbcompile.runtime.gpu_launcher import GpuLauncher, Image

MEASURED = 8
"""Candidates of ours that are measured: the best ones by the model."""
ROUNDS = 5
ROUND_SECONDS = 2e-3
"""Rounds of launches, and the predicted length of each; the result is the median."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Timing of candidates on a GPU."""

    gpu: GpuLauncher
    chip: str
    """Instruction set: ``sm_90``."""
    nodes: Mapping[str, torch.fx.Node] = field(default_factory=dict)
    """The graph's nodes by name: the library is measured by a node's own operator."""
    hints: SizeHints = field(default_factory=SizeHints)
    """Sizes for the measurement, where they are symbolic."""

    def __call__(
        self, kernel: Kernel, planned: Schedule, product: str, candidates: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """Measure the best of the candidates; as predicted where the GPU has not enough memory for it."""
        # The model chooses the candidates that are measured, and the measurement chooses the kernel that runs: the
        # model only has to find tiles that are among the best.
        ours = best(candidates)
        try:
            emitted = [
                triton.emit_kernel(
                    replace(kernel, name=f"{kernel.name}_{at}", tile=candidate.tile), planned, self._capability
                )
                for at, candidate in enumerate(ours)
            ]
        except NoTriton:
            return candidates  # the graph is lowered again without the operator in question
        tensors, device = planned.program.tensors(), kernel.device
        names = (*kernel.reads, *kernel.writes)
        return self.times(
            candidates,
            dict(zip(ours, emitted, strict=True)),
            # All candidates run on the same tensors, one after another.
            lambda: {name: self._filled(tensors[name].layout, tensors[name].dtype, device) for name in names},
            lambda: self._call_of(self.nodes[product], device),
            self.hints.of([symbol for one in emitted[:1] for symbol in one.sizes]),
        )

    def times(
        self, candidates: Sequence[Candidate], ours: Mapping[Candidate, EmittedKernel],
        memory: Callable[[], Mapping[str, torch.Tensor]], library: Callable[[], Callable[[], object]],
        hints: Mapping[str, int] = MappingProxyType({}),
    ) -> Sequence[Candidate]:  # fmt: skip
        """Measured candidates, also those of other kernels than a schedule's; as given where memory does not suffice.

        Args:
            candidates: All of them, as predicted.
            ours: Kernels of those that are measured.
            memory: Makes tensors for the arguments of these kernels, by name.
            library: Makes a call of the library.
            hints: Symbolic sizes for the measurement, by name.
        """
        measured = [*ours, *(candidate for candidate in candidates if candidate.tile is None)]
        key = self._key(list(ours.values()), hints)
        known = _read(key)
        # All times of one key come from one measurement: they are compared with one another.
        if not {candidate.label for candidate in measured} <= known.keys():
            try:
                with torch_internals.dispatch_modes()._disable_current_modes(), torch.no_grad():
                    known = dict(self._measured(ours, memory(), measured[len(ours) :], library, hints))
            except torch.OutOfMemoryError:
                return candidates
            _keep(key, known)
        return [
            # The kernels around the library's product are not measured: for them the prediction is added.
            replace(candidate, seconds=seconds + candidate.rest, is_measured=True)
            for candidate in measured
            if (seconds := known.get(candidate.label)) is not None
        ]

    def _call_of(self, node: torch.fx.Node, device: torch.device) -> Callable[[], object]:
        """The call of a node's operator, with tensors of its arguments' layouts."""

        def given(argument: torch.fx.Node) -> Any:
            value = argument.meta["val"]
            if isinstance(value, torch.Tensor):
                return self._filled(of_tensor(value), value.dtype, device)
            return self.hints.number(index(value)) if isinstance(value, torch.SymInt) else value

        arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), given)
        assert callable(node.target)
        return functools.partial(node.target, *arguments, **keywords)

    def _filled(self, layout: Layout, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        size, stride = (tuple(map(self.hints.number, values)) for values in (layout.size, layout.stride))
        return filled(size, stride, dtype, device)

    @property
    def _capability(self) -> int:
        return int(self.chip.removeprefix("sm_"))

    def _key(self, emitted: Sequence[EmittedKernel], hints: Mapping[str, int]) -> str:
        """Key in the store: all that a time depends on, and no name of this graph."""
        # Equal products of other graphs and other processes share an entry, so names and comments go.
        texts = [re.sub(r"#.*", "", kernel.source.replace(kernel.name, "kernel")) for kernel in emitted]
        types = [" ".join(kernel.types) for kernel in emitted[:1]]
        shapes = [f"{kernel.warps} {kernel.stages} {kernel.grid}" for kernel in emitted]
        shapes += [f"{name} {hints[name]}" for name in sorted(hints)]
        device = torch.cuda.get_device_name(max(emitted[0].gpu, 0)) if emitted and torch.cuda.is_available() else ""
        return store.key_of(
            "product", cubins.triton_key(), torch.__version__, self.chip, device, *types, *shapes, *texts
        )

    def _measured(
        self, ours: Mapping[Candidate, EmittedKernel], memory: Mapping[str, torch.Tensor],
        library: Sequence[Candidate], call: Callable[[], Callable[[], object]], hints: Mapping[str, int],
    ) -> Iterator[tuple[str, float | None]]:  # fmt: skip
        """Iterate over times in seconds by label; None for a candidate that cannot be compiled."""
        for (candidate, emitted), cubin in zip(ours.items(), self._built(list(ours.values())), strict=True):
            if cubin is None:
                yield candidate.label, None
                continue
            launch = self.gpu.prepare(
                emitted, cubin.image, emitted.gpu, functools.partial(_raise_unaligned, emitted.name)
            )
            sizes = SizeHints(hints).of(emitted.sizes).values()
            arguments = (*(memory[name] for name in emitted.arguments), *sizes)
            yield candidate.label, seconds(functools.partial(launch, *arguments), candidate.seconds)
        if library:
            yield library[0].label, seconds(call(), library[0].seconds)

    def _built(self, kernels: Sequence[EmittedKernel]) -> list[cubins.Cubin | None]:
        """Compile the candidates side by side; None for one that cannot be, as where shared memory does not suffice."""
        failed: set[str] = set()
        while True:
            remaining = [kernel for kernel in kernels if kernel.name not in failed]
            try:
                built = iter(cubins.obtain([cubins.Request(kernel, self.chip) for kernel in remaining]))
            except cubins.CannotCompile as reason:
                failed |= reason.reasons.keys()
                continue
            return [None if kernel.name in failed else next(built) for kernel in kernels]


def best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates of ours that are measured."""
    ours = (candidate for candidate in candidates if candidate.tile is not None)
    return sorted(ours, key=operator.attrgetter("seconds"))[:MEASURED]


def seconds(call: Callable[[], object], expected: float) -> float:
    """Median time of a call on the GPU, after two that are not counted."""
    # Enough launches that the clock's resolution does not matter, and no more than some milliseconds.
    calls = max(1, min(100, int(ROUND_SECONDS / max(expected, 1e-7))))
    if not torch.cuda.is_available():  # a stand-in, whose launches return when they have run
        now = time.perf_counter()
        call()
        return time.perf_counter() - now
    # The first calls load code, and fill caches.
    for _ in range(2):
        call()
    times = []
    for _ in range(ROUNDS):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(calls):
            call()
        ended.record()
        ended.synchronize()
        # Events are in milliseconds, of the GPU's clock: what the CPU does between launches is
        # hidden while the GPU has work.
        times.append(began.elapsed_time(ended) * 1e-3 / calls)
    return statistics.median(times)


def filled(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of different numbers, without drawing any: the generator's state is the user's."""
    span = 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True)) if 0 not in size else 0
    values = torch.arange(span, device=device)
    # What is no floating-point number may be an index: 0 is one in bounds.
    values = values.to(torch.float32).sin().to(dtype) if dtype.is_floating_point else (values * 0).to(dtype)
    return values.as_strided(size, stride)


def _raise_unaligned(name: str) -> Image:
    raise RuntimeError(f"a candidate of {name} was given a pointer that is no multiple of 16")


def _read(key: str) -> dict[str, float | None]:
    """Times that were measured before; none if the entry is absent, is deleted meanwhile, or has other content."""
    path = store.fetch(key, ".json")
    try:
        known = {} if path is None else json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    is_known = isinstance(known, dict) and all(isinstance(value, (float, int, type(None))) for value in known.values())
    return known if is_known else {}


def _keep(key: str, times: Mapping[str, float | None]) -> None:
    """Write times for the next process."""
    store.add(key, ".json", functools.partial(_write, json.dumps(times)))


def _write(text: str, path: Path) -> None:
    path.write_text(text)
