"""What a graph's callable is made of, noted while it is made, so that a later process can make it again.

    with collecting() as made:
        compiled = backend(graph, inputs)
    made.programs      the text, kernels and plan of each program that was loaded
    made.joined        "direct": the one program is the callable; "training": a forward and a backward one
    made.captured      the graph itself, where it may have to run as it was captured

Stages write here and never read. Where nobody collects, or something cannot be made from data (``made.obstacle``
says what), nothing is lost but a warm start.

In torch: torch/_functorch/_aot_autograd/autograd_cache.py. Read next: nbcompile/warm/graphs.py
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbcompile.ir.emitted import EmittedKernel, Plan


class Runnable(Protocol):
    """An emitted program, as far as running it needs it."""

    @property
    def source(self) -> str: ...
    @property
    def wrapper(self) -> str: ...
    @property
    def kernels(self) -> tuple[EmittedKernel, ...]: ...
    @property
    def externs(self) -> tuple[Any, ...]:
        """Each with its ``name`` in the wrapper and its ``target``."""

    @property
    def plan(self) -> Plan | None: ...
    @property
    def no_plan(self) -> str: ...


@dataclass(frozen=True, slots=True)
class CapturedConstants:
    """What a program's text refers to, and cannot spell."""

    attribute: Callable[[str], Any] | None
    """Fetches a constant of the graph, by path."""
    constants: Mapping[int, object]
    """Arguments of operators, by number."""


@dataclass(slots=True)
class ArtifactBuilder:
    """The parts of one callable."""

    programs: list[Runnable] = field(default_factory=list)
    constants_of_programs: list[CapturedConstants] = field(default_factory=list)
    """Of each program what its text has no word for."""
    roles: list[str] = field(default_factory=list)
    """What each is for: ``inference``, ``forward``, ``backward``."""
    joined: str = ""
    """How they are put together; "" if that was not told."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What putting them together needs to know."""
    captured: Any = None
    """The graph as it was captured (an ``fx.GraphModule``), where some call, or every call, runs that."""
    alias_check: Any = None
    """Which inputs are looked at for that (an ``overlaps.Watch``)."""
    obstacle: str = ""
    ready: list[Callable[[], None]] | None = None
    """Of a callable that is still being made: what to do when it is there."""


_builder: contextvars.ContextVar[ArtifactBuilder | None] = contextvars.ContextVar("nbcompile_parts", default=None)


@contextmanager
def collecting() -> Iterator[ArtifactBuilder]:
    """Collect what is loaded inside the block."""
    builder = ArtifactBuilder()
    token = _builder.set(builder)
    try:
        yield builder
    finally:
        _builder.reset(token)


def add_program(
    program: Runnable, attribute: Callable[[str], Any] | None = None, constants: Mapping[int, object] | None = None
) -> None:
    """A program was loaded."""
    builder = _builder.get()
    if builder is not None:
        builder.programs.append(program)
        builder.constants_of_programs.append(CapturedConstants(attribute, constants or {}))


def set_role(role: str) -> None:
    """What the program is for that was loaded last."""
    builder = _builder.get()
    if builder is not None:
        builder.roles.append(role)


def is_collecting() -> bool:
    """Whether anybody wants to know."""
    return _builder.get() is not None


def set_wrapper(how: str, **facts: Any) -> None:
    """The programs were put together."""
    builder = _builder.get()
    if builder is not None:
        builder.joined, builder.facts = how, facts


def set_alias_check(captured: Any, check: Any) -> None:
    """What was joined is called where the inputs do not overlap; elsewhere the graph as captured."""
    builder = _builder.get()
    if builder is not None:
        builder.captured, builder.alias_check = captured, check


def fall_back_to_eager(captured: Any) -> None:
    """The graph runs as captured: whatever was made of it before that was found is no part."""
    builder = _builder.get()
    if builder is not None:
        builder.programs.clear()
        builder.constants_of_programs.clear()
        builder.roles.clear()
        builder.joined, builder.facts, builder.captured, builder.alias_check = "captured", {}, captured, None


def defer() -> list[Callable[[], None]]:
    """The parts come later, in another thread: whoever wants them leaves a message in the list."""
    builder = _builder.get()
    callbacks: list[Callable[[], None]] = []
    if builder is not None:
        builder.ready = callbacks
    return callbacks


def refuse(reason: str) -> None:
    """Something is part of it that only this process has."""
    builder = _builder.get()
    if builder is not None:
        builder.obstacle = builder.obstacle or reason
