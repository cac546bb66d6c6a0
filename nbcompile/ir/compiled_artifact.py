"""Compiled artifact of a graph: the data from which a later process makes the same callable, collected while compiling.

    with collecting() as builder:
        compiled = backend(graph, inputs)
    builder.programs      the text, kernels and launch plan of each program that was loaded
    builder.wrapper_kind        "direct": the one program is the callable; "training": a forward and a backward program
    builder.captured      the captured graph, where some call falls back to it
    builder.parts         the parts of a graph that was split, each with its own builder

Stages write here and never read. Outside of ``collecting()``, and for a callable that cannot be rebuilt from data
(``builder.obstacle`` says why), only the disk cache is lost.

In torch: torch/_functorch/_aot_autograd/autograd_cache.py. Read next: nbcompile/fast/disk_cache/graphs.py
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nbcompile.ir.emitted import CaptureFacts, EmittedKernel, LaunchPlan
from nbcompile.ir.profiler_ranges import ProfilerRange
from nbcompile.support.context_variables import bound


class Runnable(Protocol):
    """Protocol of an emitted program: what running it needs."""

    @property
    def source(self) -> str: ...
    @property
    def wrapper(self) -> str: ...
    @property
    def kernels(self) -> tuple[EmittedKernel, ...]: ...
    @property
    def externs(self) -> tuple[Any, ...]:
        """Extern calls, each with its ``name`` in the wrapper and its ``target``."""

    @property
    def plan(self) -> LaunchPlan | None: ...
    @property
    def no_plan(self) -> str: ...
    @property
    def ranges(self) -> tuple[tuple[str, ProfilerRange], ...]: ...
    @property
    def capture(self) -> CaptureFacts | None: ...


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """The GPUs that machine code is for, and what compiled it."""

    chips: tuple[tuple[int, str], ...]
    """Number of each GPU, and its instruction set."""
    triton: str
    """Triton's version."""
    debug: bool
    """True if each launch is followed by a synchronisation."""


@dataclass(frozen=True, slots=True)
class CapturedConstants:
    """Constants that a program's text refers to, and that have no literal."""

    attribute: Callable[[str], Any] | None
    """Getter for a tensor constant of the graph, by path."""
    constants: Mapping[int, object]
    """Arguments of operators, by number."""


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """A part of a graph that was split."""

    function: Callable[..., Any]
    """The function that the graph of the calls names."""
    artifact: ArtifactBuilder


@dataclass(slots=True)
class ArtifactBuilder:
    """Builder of the compiled artifact of one graph."""

    programs: list[Runnable] = field(default_factory=list)
    constants_of_programs: list[CapturedConstants] = field(default_factory=list)
    """Constants of each program."""
    roles: list[str] = field(default_factory=list)
    """Role of each program: ``inference``, ``forward``, ``backward``."""
    wrapper_kind: str = ""
    """Kind of the runtime wrapper around them; "" while it is not known."""
    runtime_metadata: Any = None
    """The wrapper's arguments (an ``aot.runtime_metadata.RuntimeMetadata``)."""
    captured: Any = None
    """The captured graph (an ``fx.GraphModule``), where some call, or every call, falls back to it."""
    parts: list[CompiledPart] = field(default_factory=list)
    """The parts of a graph that was split; ``captured`` is the graph of their calls."""
    alias_check: Any = None
    """Inputs to compare before each call (an ``input_aliasing.AliasCheck``)."""
    leaf_views: Any = ()
    """Results that are given as views created without gradients (each an ``aot.leaf_views.LeafView``)."""
    gpu: StoredTarget | None = None
    """The GPUs of the programs that were loaded last; None: they run on the CPU."""
    obstacle: str = ""
    """The reason why the callable cannot be rebuilt from data."""
    ready: list[Callable[[], None]] | None = None
    """Callbacks for a callable that a background thread is still compiling."""


# Threads compile at the same time: each has its own builder.
_builder: contextvars.ContextVar[ArtifactBuilder | None] = contextvars.ContextVar("nbcompile_parts", default=None)


@contextmanager
def collecting() -> Iterator[ArtifactBuilder]:
    """Collect the programs that are loaded inside the block."""
    builder = ArtifactBuilder()
    with bound(_builder, builder):
        yield builder


def add_program(
    program: Runnable, attribute: Callable[[str], Any] | None = None, constants: Mapping[int, object] | None = None
) -> None:
    """Add a program that was loaded."""
    builder = _builder.get()
    if builder is not None:
        builder.programs.append(program)
        builder.constants_of_programs.append(CapturedConstants(attribute, constants or {}))


def set_gpu(target: StoredTarget) -> None:
    """Set the GPUs that programs are for."""
    builder = _builder.get()
    if builder is not None:
        # Programs of one graph may be on several GPUs (forward and backward are loaded one by one).
        chips = builder.gpu.chips if builder.gpu is not None else ()
        builder.gpu = replace(target, chips=tuple(sorted({*chips, *target.chips})))


def set_role(role: str) -> None:
    """Set the role of the program that was loaded last."""
    builder = _builder.get()
    if builder is not None:
        builder.roles.append(role)


def keep_last_program() -> None:
    """Discard the programs before the last one, which is called as it is."""
    builder = _builder.get()
    if builder is not None:
        builder.programs[:-1], builder.constants_of_programs[:-1] = [], []
        builder.roles[:], builder.wrapper_kind, builder.runtime_metadata = ["inference"], "direct", None


def is_collecting() -> bool:
    """Return whether an artifact is being collected."""
    return _builder.get() is not None


def set_wrapper(kind: str, runtime_metadata: Any = None) -> None:
    """Set the kind of the runtime wrapper, and its metadata."""
    builder = _builder.get()
    if builder is not None:
        builder.wrapper_kind, builder.runtime_metadata = kind, runtime_metadata


def set_alias_check(captured: Any, check: Any) -> None:
    """Set the alias check: calls whose inputs overlap fall back to the captured graph."""
    builder = _builder.get()
    if builder is not None:
        builder.captured, builder.alias_check = captured, check


def set_leaf_views(leaves: Any) -> None:
    """Set the results that are given as views created without gradients."""
    builder = _builder.get()
    if builder is not None:
        builder.leaf_views = leaves


def set_parts(calls: Any, parts: list[CompiledPart]) -> None:
    """Set the parts of a graph that was split, and the graph (an ``fx.GraphModule``) of their calls."""
    builder = _builder.get()
    if builder is not None:
        builder.captured, builder.parts = calls, parts


def fall_back_to_eager(captured: Any) -> None:
    """Make the captured graph the artifact, and discard the programs compiled before the fallback."""
    builder = _builder.get()
    if builder is not None:
        # They were compiled, and nothing will call them.
        builder.programs.clear()
        builder.constants_of_programs.clear()
        builder.roles.clear()
        builder.wrapper_kind, builder.runtime_metadata = "captured", None
        builder.captured, builder.alias_check = captured, None


def defer() -> list[Callable[[], None]]:
    """Return the list of callbacks to call when a background thread has finished the artifact."""
    builder = _builder.get()
    callbacks: list[Callable[[], None]] = []
    if builder is not None:
        builder.ready = callbacks
    return callbacks


def mark_not_storable(reason: str) -> None:
    """Mark the artifact as not storable; the first reason is kept."""
    builder = _builder.get()
    if builder is not None:
        builder.obstacle = builder.obstacle or reason
