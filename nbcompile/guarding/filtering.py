"""Guard filters: functions of the user that drop guards, ``options={"guard_filter_fn": f}``.

    f([entry, ...]) -> [True, False, ...]       entry.guard_type, entry.name, entry.value, entry.is_global

torch.compiler's own filters (``skip_guard_on_all_nn_modules_unsafe``, ...) call methods of
``entry.orig_guard.source`` to find out whether a value belongs to a module; ours has the same methods.

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
from nbcompile.guarding.accessors import RootSource, SourceCache
from nbcompile.support.real_class import is_instance

Filter = Callable[[Sequence["GuardFilterEntry"]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Owner:
    """The module that a guarded value belongs to."""

    module: torch.nn.Module | None

    def is_unspecialized_nn_module(self) -> bool:
        """Return whether there is a module."""
        return self.module is not None

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Return whether its class is torch's own."""
        return self.module is not None and type(self.module).__module__.startswith(("torch.nn.", "torch.ao."))


@dataclass(frozen=True, slots=True)
class OriginalGuard:
    """A guard with the attributes that torch's filters read."""

    source: Owner
    guard: Guard


@dataclass(frozen=True, slots=True)
class GuardFilterEntry:
    """One guard as the argument of a filter; the names are torch's."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: OriginalGuard


def filter_guards(guards: tuple[Guard, ...], frame: Frame, filter_fn: Filter | None) -> tuple[Guard, ...]:
    """Apply a filter to guards; without a filter all stay."""
    if filter_fn is None:
        return guards
    known = SourceCache(frame.scope())
    verdicts = filter_fn([_entry(guard, known) for guard in guards])
    return tuple(guard for guard, keep in zip(guards, verdicts, strict=True) if keep)


def _entry(guard: Guard, known: SourceCache) -> GuardFilterEntry:
    source, kind = guard.source, guard.kind.value
    if source is None:
        return GuardFilterEntry("", False, None, kind, (), False, OriginalGuard(Owner(None), guard))
    is_global = isinstance(root(source), GlobalSource)
    owner = Owner(_module_of(source, known))
    return GuardFilterEntry(
        expression(source), True, known.value(source), kind, (), is_global, OriginalGuard(owner, guard)
    )


def _module_of(source: Source, known: SourceCache) -> torch.nn.Module | None:
    """The innermost module on the path of a source."""
    while True:
        value = known.value(source)
        if is_instance(value, torch.nn.Module):
            return value
        if isinstance(source, RootSource):
            return None
        source = source.base
