"""Guards about a module and what it holds: together, as a group whose result can be cached.

    L['self']._modules['l']._parameters['weight']     from L['self'] on only through dicts of modules

Such guards read only modules, dicts and tensors, so whether any of these has
changed since they held can be seen without running them (fast/guard_cache.py). They
form a guard tree of their own, which the main tree evaluates as one guard.

A value that is read in another way (an item of a list, the code of a function, an attribute that
a class gives) is checked in the main tree; so is the last tensor of each kind, which sees
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
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.real_class import is_instance

WatchedObjects = Callable[[object], Sequence[object]]
Evaluate = Callable[[object], bool]
MakeCache = Callable[[WatchedObjects, Evaluate], Evaluate]

MIN_GUARDS = 8
"""The smallest number of guards that is worth a cache."""
MANY_GUARDS = 16
"""The smallest number of guards for which the C extension is built, once per machine."""
_INLINE_DIMS = 5  # of more, sizes are stored outside of the TensorImpl
_VARS = object()  # the step from a module to its __dict__
_OF_CONSTANTS = (GuardKind.NONE_MATCH, GuardKind.BOOL_MATCH, GuardKind.EQUALS_MATCH)
_OF_DICTS = (GuardKind.DICT_LENGTH, GuardKind.DICT_KEYS, GuardKind.DICT_CONTAINS)


@dataclass(slots=True)
class ModuleGroup:
    """The guards below one module."""

    source: Source
    text: str
    """Name of the group's guard in the main tree."""
    guards: list[Guard] = field(default_factory=list)
    types: list[Guard] = field(default_factory=list)
    """Guards that also check members of a class, which is not watched: the group checks only their object."""
    paths: dict[tuple[object, ...], None] = field(default_factory=dict)
    """Path of each watched object, owners first: steps from the module through dicts."""
    root: Any = None
    """The guard tree of the group, evaluated on the module."""
    cached: Evaluate | None = None
    """The guard tree behind a cache."""
    make_cache: MakeCache = field(kw_only=True)

    def cache(self) -> Evaluate:
        """Put the tree behind a cache."""
        self.cached = self.make_cache(self.watched, self.root.check)
        return self.cached

    def watched(self, module: object) -> list[object]:
        """The objects to watch now. Raises if the module's structure has changed."""
        found: dict[tuple[object, ...], object] = {(): module}
        for path in self.paths:
            owner = found[path[:-1]]
            found[path] = vars(owner) if path[-1] is _VARS else owner[path[-1]]  # type: ignore[index]
        return list(found.values())


def maker(guards: Sequence[Guard]) -> GroupGuards | None:
    """A function that divides the guards of a frame into groups; None if they are few, or there is no guard cache."""
    make_cache = guard_cache.maker() if len(guards) >= MANY_GUARDS else None
    return None if make_cache is None else lambda ordered, known: groups(ordered, known, make_cache)


def groups(guards: Iterable[Guard], known: SourceCache, make_cache: MakeCache) -> list[ModuleGroup]:
    """The modules with enough guards below them for a cache."""
    # The members of a class are not among what the cache watches: that half of a guard stays in the main tree.
    of_objects = [(guard, replace(guard, members=())) for guard in guards]
    paths = [
        (guard, found_path)
        for guard, of_object in of_objects
        if (found_path := _path_from_module(of_object, known)) is not None
    ]
    # By the dispatch keys: tensors with the same keys are compared with the thread's state alike.
    tensors = [guard for guard, _ in paths if guard.kind is GuardKind.TENSOR_MATCH]
    last = {_kind(known.value(guard.source)): guard for guard in tensors}  # type: ignore[arg-type]
    found: dict[Source, ModuleGroup] = {}
    for guard, (source, path) in paths:
        # Stays in the main tree: a tensor guard depends on the state of the process as well, which the cache does not
        # watch. One guard of each kind is enough to see it.
        if any(guard is each for each in last.values()):
            continue
        group = found.setdefault(
            source, ModuleGroup(source, f"___unchanged({known.text(source)})", make_cache=make_cache)
        )
        if guard.members:
            group.types.append(guard)
        else:
            group.guards.append(guard)
        # All prefixes of the path are watched, owners first: a thing is looked at only if its owner is unchanged.
        group.paths |= dict.fromkeys(path[:length] for length in range(1, len(path) + 1))
    return [each for each in found.values() if len(each.guards) >= MIN_GUARDS]


def _kind(value: object) -> object:
    assert isinstance(value, torch.Tensor)
    return torch._C._dispatch_keys(value).raw_repr()


def _path_from_module(guard: Guard, known: SourceCache) -> tuple[Source, tuple[object, ...]] | None:
    """The outermost module on the path to a value, and the steps from there; None if a step is of another kind."""
    if guard.source is None or not _is_covered(guard, known.value(guard.source)):
        return None
    steps = list(_steps(guard.source))
    start = next((at for at, each in enumerate(steps) if is_instance(known.value(each), torch.nn.Module)), None)
    if start is None:
        return None
    path: list[object] = []
    for before, step in zip(steps[start:], steps[start + 1 :], strict=False):
        more = _dict_steps(known.value(before), step)
        if more is None:
            return None
        path += more
    value = known.value(guard.source)
    if guard.kind is GuardKind.NOT_IN_GENERIC_DICT:
        path.append(_VARS)
    # A constant is no object with a state: it changes only if the dict that holds it does.
    elif path and not isinstance(value, torch.nn.Module | torch.Tensor | dict):
        path.pop()  # a constant: the dict that holds it is watched
    return steps[start], tuple(path)


def _steps(source: Source) -> Iterator[Source]:
    if not isinstance(source, RootSource):
        yield from _steps(source.base)
    yield source


def _dict_steps(owner: object, step: Source) -> tuple[object, ...] | None:
    """One step of an address as steps through dicts."""
    match step:
        case AttrSource(_, attribute) if is_instance(owner, torch.nn.Module):
            table = module_table(owner, attribute)
            return None if table is None else (_VARS, *table, attribute)
        case ItemSource(_, key) if type(owner) is dict and is_instance(key, str | int):
            return (key,)
    return None


def _is_covered(guard: Guard, value: object) -> bool:
    """True if a guard's result depends only on dicts, modules and tensors that are watched."""
    if guard.kind in _OF_CONSTANTS:
        return isinstance(value, int | float | str | bytes | tuple | torch.dtype | torch.device | None)
    if guard.kind in _OF_DICTS:  # the order of an OrderedDict may change without a new version
        return type(value) is dict or (type(value) is OrderedDict and guard.kind is not GuardKind.DICT_KEYS)
    if guard.kind is GuardKind.TENSOR_MATCH:
        # Sizes of up to five dims are inside of the TensorImpl, whose bytes the cache compares; more are elsewhere.
        plain = (torch.Tensor, torch.nn.Parameter)
        return type(value) in plain and value.layout is torch.strided and value.dim() <= _INLINE_DIMS  # type: ignore[attr-defined]
    if guard.kind is GuardKind.TYPE_MATCH:
        return is_instance(value, torch.nn.Module) or type(value) is dict or not type(value).__flags__ & HEAP_TYPE
    return guard.kind is GuardKind.ID_MATCH or (
        guard.kind is GuardKind.NOT_IN_GENERIC_DICT and is_instance(value, torch.nn.Module)
    )
