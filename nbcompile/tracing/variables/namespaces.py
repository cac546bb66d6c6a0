"""The dict of a module's globals: ``globals()``, ``vars(module)``, a function's ``__globals__``.

    globals()["G"] = 3; G        3, as if ``global G; G = 3`` had been written
    module.G = 3; vars(module)["G"]

A global variable is an attribute of its module and an item of this dict, which is a view, not a copy: side_effects
records items that are stored through it like globals, and it has variables that were stored as globals or attributes.

In torch: torch/_dynamo/variables/builder.py wraps it as an ordinary dict. Read next: instance_dict.py
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, MutableMapping

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Recipe
from nbcompile.capture.source import ItemSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mappings import DictVariable, Entry


def is_namespace(tracer: Tracer, value: dict[object, object]) -> bool:
    """True if functions may read a dict as their globals."""
    name = value.get("__name__") if type(value) is dict else None
    if type(name) is not str:
        return False
    module = sys.modules.get(name)
    return value is tracer.output.frame.globals or "__builtins__" in value or getattr(module, "__dict__", None) is value


class NamespaceVariable(DictVariable):
    """The globals of a module."""

    def __init__(self, tracer: Tracer, scope: dict[str, object], source: Source | None) -> None:
        super().__init__(tracer, [], source)
        self.scope = scope
        self.entries = _Globals(tracer, scope, source)  # type: ignore[assignment]

    # Guards are about the dict at the entry of the frame, not about items that were stored since.
    def _guard_keys(self, tracer: Tracer) -> None:
        if self.source is not None:
            tracer.guard(self.source, GuardKind.DICT_KEYS, tuple(self.scope))

    def _guard_length(self, tracer: Tracer) -> None:
        if self.source is not None:
            tracer.guard(self.source, GuardKind.DICT_LENGTH, len(self.scope))

    def _has(self, tracer: Tracer, key: VariableTracker, looked_up: Hashable) -> bool:
        name = key.hash_key(tracer)
        if self.source is not None and tracer.side_effects.load_global(self.scope, name) is None:  # type: ignore[arg-type]
            tracer.guard(self.source, GuardKind.DICT_CONTAINS, (name, name in self.scope))
        return name in self.entries

    def mark_mutated(self, tracer: Tracer) -> None:
        """Do nothing: a change is recorded global by global."""

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.globals_of(self.scope) if self.source is None else super().recipe(reconstruction)


class _Globals(MutableMapping[Hashable, Entry]):
    """The entries: real globals, with changes of the traced code applied."""

    def __init__(self, tracer: Tracer, scope: dict[str, object], source: Source | None) -> None:
        self.tracer = tracer
        self.scope = scope
        self.source = source
        self.looked_at: dict[str, VariableTracker] = {}

    def __getitem__(self, name: Hashable) -> Entry:
        if not isinstance(name, str):
            raise KeyError(name)
        stored = self.tracer.side_effects.load_global(self.scope, name)
        if stored is None:
            return ConstantVariable(name), self._real(name)
        if stored.value is None:
            raise KeyError(name)
        return ConstantVariable(name), stored.value

    def _real(self, name: str) -> VariableTracker:
        if name not in self.looked_at:
            value = self.scope[name]
            # A module has hundreds of globals: only those that an instruction reads become guards.
            source = self.source
            self.looked_at[name] = (
                self.tracer.wrap(value, None) if source is None else LazyVariable(value, ItemSource(source, name))
            )
        return self.looked_at[name]

    def __setitem__(self, name: Hashable, entry: Entry) -> None:
        if not isinstance(name, str):
            raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, "globals()[...] = ...", name="dict")
        # A look-up stores the realised tracker, which is no change of the program's.
        if name not in self or realise(self.tracer, self[name][1]) is not entry[1]:
            self.tracer.side_effects.store_global(self.tracer, self.scope, name, entry[1])

    def __delitem__(self, name: Hashable) -> None:
        if name not in self:
            raise KeyError(name)
        self.tracer.side_effects.store_global(self.tracer, self.scope, str(name), None)

    def __iter__(self) -> Iterator[Hashable]:
        stored = self.tracer.side_effects.stored_globals(self.scope)
        kept = [name for name in self.scope if name not in stored or self._is_kept(name)]
        yield from kept
        yield from (name for name, value in stored.items() if value is not None and name not in kept)

    def _is_kept(self, name: str) -> bool:
        """True if a stored global keeps its previous position."""
        change = self.tracer.side_effects.load_global(self.scope, name)
        return change is None or (change.value is not None and not change.moved)

    def __len__(self) -> int:
        return sum(1 for _ in self)
