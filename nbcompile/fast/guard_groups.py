"""Guards about a module and what it holds: together, as a group whose result can be cached.

    L['self']._modules['l']._parameters['weight']     from L['self'] on only through dicts of modules

Such guards look at modules, dicts and tensors alone, so whether any of these has
changed since they held can be seen without running them (fast/guard_cache.py). They
stand in a guard tree of their own, of which the main tree asks one question.

What goes another way (an item of a list, the code of a function, an attribute that
a class gives) stays in the main tree; so does the last tensor of each kind, which sees
the state of the process that tensor guards depend on.

In torch: "tag safe" subtrees in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import AttrSource, ItemSource, Source
from nbcompile.fast import guard_cache
from nbcompile.guarding.accessors import RootSource, SourceCache, module_table
from nbcompile.guarding.group import GroupGuards

Watched = Callable[[object], Sequence[object]]
Held = Callable[[object], bool]
Remember = Callable[[Watched, Held], Held]

FEWEST = 8
"""Guards; fewer are not worth a cache."""
MANY_GUARDS = 16
"""From so many on a cache may pay for what it costs to build once: a C file of ours is compiled."""
_INLINE_DIMS = 5  # of more, sizes lie outside of the TensorImpl
_VARS = object()  # the step from a module to its __dict__
_OF_CONSTANTS = (GuardKind.NONE_MATCH, GuardKind.BOOL_MATCH, GuardKind.EQUALS_MATCH)
_OF_DICTS = (GuardKind.DICT_LENGTH, GuardKind.DICT_KEYS, GuardKind.DICT_CONTAINS)
_HEAP_TYPE = 1 << 9  # instances of such a class may be given another class


@dataclass(slots=True)
class ModuleGroup:
    """The guards below one module."""

    source: Source
    text: str
    """How the main tree calls its question."""
    guards: list[Guard] = field(default_factory=list)
    types: list[Guard] = field(default_factory=list)
    """Guards that ask about members of a class too, which is not watched: here is asked what they ask of the object."""
    paths: dict[tuple[object, ...], None] = field(default_factory=dict)
    """To each thing that is watched, owners first: steps from the module through dicts."""
    root: Any = None
    """The guard tree of the group, evaluated on the module."""
    cached: Held | None = None
    """That tree behind a cache."""
    make_cache: Remember = field(kw_only=True)

    def cache(self) -> Held:
        """Put the tree behind a cache."""
        self.cached = self.make_cache(self.watched, self.root.check)
        return self.cached

    def watched(self, module: object) -> list[object]:
        """What there is now to watch. Raises where the module is built in another way."""
        found: dict[tuple[object, ...], object] = {(): module}
        for path in self.paths:
            owner = found[path[:-1]]
            found[path] = vars(owner) if path[-1] is _VARS else owner[path[-1]]  # type: ignore[index]
        return list(found.values())


def maker(guards: Sequence[Guard]) -> GroupGuards | None:
    """What divides the guards of a frame into groups; None where they are few, or there is no guard cache here."""
    make_cache = guard_cache.maker() if len(guards) >= MANY_GUARDS else None
    return None if make_cache is None else lambda ordered, known: groups(ordered, known, make_cache)


def groups(guards: Iterable[Guard], known: SourceCache, make_cache: Remember) -> list[ModuleGroup]:
    """The modules below which there are guards enough to remember."""
    asked = [(guard, replace(guard, members=())) for guard in guards]
    ways = [(guard, way) for guard, of_object in asked if (way := _way(of_object, known)) is not None]
    tensors = [guard for guard, _ in ways if guard.kind is GuardKind.TENSOR_MATCH]
    last = {_kind(known.value(guard.source)): guard for guard in tensors}  # type: ignore[arg-type]
    found: dict[Source, ModuleGroup] = {}
    for guard, (source, path) in ways:
        if any(guard is each for each in last.values()):
            continue
        group = found.setdefault(
            source, ModuleGroup(source, f"___unchanged({known.text(source)})", make_cache=make_cache)
        )
        if guard.members:
            group.types.append(guard)
        else:
            group.guards.append(guard)
        group.paths |= dict.fromkeys(path[:length] for length in range(1, len(path) + 1))
    return [each for each in found.values() if len(each.guards) >= FEWEST]


def _kind(value: object) -> object:
    assert isinstance(value, torch.Tensor)
    return torch._C._dispatch_keys(value).raw_repr()


def _way(guard: Guard, known: SourceCache) -> tuple[Source, tuple[object, ...]] | None:
    """The outermost module on the way to a guarded value, and the steps from there; None if it goes another way."""
    if guard.source is None or not _is_seen(guard, known.value(guard.source)):
        return None
    steps = list(_steps(guard.source))
    start = next((at for at, each in enumerate(steps) if isinstance(known.value(each), torch.nn.Module)), None)
    if start is None:
        return None
    path: list[object] = []
    for before, step in zip(steps[start:], steps[start + 1 :], strict=False):
        more = _through(known.value(before), step)
        if more is None:
            return None
        path += more
    value = known.value(guard.source)
    if guard.kind is GuardKind.NOT_IN_GENERIC_DICT:
        path.append(_VARS)
    elif path and not isinstance(value, torch.nn.Module | torch.Tensor | dict):
        path.pop()  # a constant: the dict that holds it is watched
    return steps[start], tuple(path)


def _steps(source: Source) -> Iterator[Source]:
    if not isinstance(source, RootSource):
        yield from _steps(source.base)
    yield source


def _through(owner: object, step: Source) -> tuple[object, ...] | None:
    """One step of an address as steps through dicts."""
    match step:
        case AttrSource(_, attribute) if isinstance(owner, torch.nn.Module):
            table = module_table(owner, attribute)
            return None if table is None else (_VARS, *table, attribute)
        case ItemSource(_, key) if type(owner) is dict and isinstance(key, str | int):
            return (key,)
    return None


def _is_seen(guard: Guard, value: object) -> bool:
    """Whether nothing can change what a guard says without changing a dict, a module or a tensor that is watched."""
    if guard.kind in _OF_CONSTANTS:
        return isinstance(value, int | float | str | bytes | tuple | torch.dtype | torch.device | None)
    if guard.kind in _OF_DICTS:  # the order of an OrderedDict may change without a new version
        return type(value) is dict or (type(value) is OrderedDict and guard.kind is not GuardKind.DICT_KEYS)
    if guard.kind is GuardKind.TENSOR_MATCH:
        plain = (torch.Tensor, torch.nn.Parameter)
        return type(value) in plain and value.layout is torch.strided and value.dim() <= _INLINE_DIMS  # type: ignore[attr-defined]
    if guard.kind is GuardKind.TYPE_MATCH:
        return isinstance(value, torch.nn.Module) or type(value) is dict or not type(value).__flags__ & _HEAP_TYPE
    return guard.kind is GuardKind.ID_MATCH or (
        guard.kind is GuardKind.NOT_IN_GENERIC_DICT and isinstance(value, torch.nn.Module)
    )
