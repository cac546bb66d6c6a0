"""Guards that the user says are not needed: ``options={"guard_filter_fn": f}``.

    f([entry, ...]) -> [True, False, ...]       entry.guard_type, entry.name, entry.value, entry.is_global

torch.compiler's ready filters (``skip_guard_on_all_nn_modules_unsafe``, ...) ask
``entry.orig_guard.source`` whether a value belongs to a module; ours answers, too.

In torch: guard_filter_fn in torch/_dynamo/guards.py, GuardFilterEntry in
torch/_dynamo/types.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard
from nbcompile.capture.source import GlobalSource, Source, expression, root
from nbcompile.guarding.accessors import Known, Rooted

Filter = Callable[[Sequence["Entry"]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Owner:
    """The module that a guarded value belongs to."""

    module: torch.nn.Module | None

    def is_unspecialized_nn_module(self) -> bool:
        """Whether there is one."""
        return self.module is not None

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether it is one of torch's own classes."""
        return self.module is not None and type(self.module).__module__.startswith(("torch.nn.", "torch.ao."))


@dataclass(frozen=True, slots=True)
class Described:
    """A guard as a filter may look into it."""

    source: Owner
    guard: Guard


@dataclass(frozen=True, slots=True)
class Entry:
    """One guard, as a filter is given it; the names are torch's."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Described


def kept(guards: tuple[Guard, ...], frame: Frame, chosen: Filter | None) -> tuple[Guard, ...]:
    """The guards that a filter keeps; all without one."""
    if chosen is None:
        return guards
    known = Known(frame.scope())
    verdicts = chosen([_entry(guard, known) for guard in guards])
    return tuple(guard for guard, wanted in zip(guards, verdicts, strict=True) if wanted)


def _entry(guard: Guard, known: Known) -> Entry:
    source, kind = guard.source, guard.kind.value
    if source is None:
        return Entry("", False, None, kind, (), False, Described(Owner(None), guard))
    is_global = isinstance(root(source), GlobalSource)
    owner = Owner(_module_of(source, known))
    return Entry(expression(source), True, known.value(source), kind, (), is_global, Described(owner, guard))


def _module_of(source: Source, known: Known) -> torch.nn.Module | None:
    """The innermost module that an address leads to or through."""
    while True:
        value = known.value(source)
        if isinstance(value, torch.nn.Module):
            return value
        if isinstance(source, Rooted):
            return None
        source = source.base
