"""What a graph's callable is made of, noted while it is made, so that a later process can make it again.

    with collecting() as made:
        compiled = backend(graph, inputs)
    made.programs      the text, kernels and plan of each program that was loaded
    made.joined        "direct": the one program is the callable; "training": a forward and a backward one

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


@dataclass(slots=True)
class Parts:
    """The parts of one callable."""

    programs: list[Runnable] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    """What each is for: ``inference``, ``forward``, ``backward``."""
    joined: str = ""
    """How they are put together; "" if that was not told."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What putting them together needs to know."""
    obstacle: str = ""
    ready: list[Callable[[], None]] | None = None
    """Of a callable that is still being made: what to do when it is there."""


_parts: contextvars.ContextVar[Parts | None] = contextvars.ContextVar("nbcompile_parts", default=None)


@contextmanager
def collecting() -> Iterator[Parts]:
    """Collect what is loaded inside the block."""
    made = Parts()
    token = _parts.set(made)
    try:
        yield made
    finally:
        _parts.reset(token)


def add(program: Runnable) -> None:
    """A program was loaded."""
    made = _parts.get()
    if made is not None:
        made.programs.append(program)


def name(role: str) -> None:
    """What the program is for that was loaded last."""
    made = _parts.get()
    if made is not None:
        made.roles.append(role)


def collected() -> bool:
    """Whether anybody wants to know."""
    return _parts.get() is not None


def join(how: str, **facts: Any) -> None:
    """The programs were put together."""
    made = _parts.get()
    if made is not None:
        made.joined, made.facts = how, facts


def wait() -> list[Callable[[], None]]:
    """The parts come later, in another thread: whoever wants them leaves a message in the list."""
    made = _parts.get()
    messages: list[Callable[[], None]] = []
    if made is not None:
        made.ready = messages
    return messages


def refuse(reason: str) -> None:
    """Something is part of it that only this process has."""
    made = _parts.get()
    if made is not None:
        made.obstacle = made.obstacle or reason
