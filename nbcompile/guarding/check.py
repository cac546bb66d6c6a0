"""Construction of a check: the guards of a cache entry, compiled into torch's guard tree. The list shown is what runs.

    (Guard(L['x'], TENSOR_MATCH, ...), Guard(L['k'], EQUALS_MATCH, 3))
      -> RootGuardManager
           L['x']  check_tensor(L['x'], Tensor, ..., size=[3], stride=[1])
           L['k']  L['k'] == 3

Each guard is prepared once (encodings/table.py), installed in torch's
C++ tree, which the hook evaluates at every call, and stored for explanations.
The global state is checked first (one C++ test), then values, from short
sources to long ones, then relations between values.

In torch: CheckFunctionManager in torch/_dynamo/guards.py. Read next:
nbcompile/guarding/explain.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from nbcompile import hooks
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import (
    AttrSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    MethodFunctionSource,
    Source,
    expression,
    root,
)
from nbcompile.guarding import explain
from nbcompile.guarding.accessors import GuardTree, RootSource, SourceCache, fetch
from nbcompile.guarding.encodings.sentences import shortened
from nbcompile.guarding.encodings.table import AMBIENT, leaf
from nbcompile.guarding.group import GroupGuards, GuardGroup
from nbcompile.guarding.prepared import Ambient, Conditions, ExpectedObject, Leaf, evaluate_leaf
from nbcompile.record.model import FailedGuard
from nbcompile.support.real_class import is_instance
from nbcompile.torch_internals import thread_keys


class FrameCheck:
    """Executable guards of one cache entry (``capture.compiled.Check``)."""

    def __init__(
        self, prepared: tuple[Leaf | Ambient, ...], tree: GuardTree, groups: tuple[GuardGroup, ...] = ()
    ) -> None:
        self.groups = groups
        """Guards that the tree evaluates through a cache."""
        self.prepared = prepared
        """Guards in the order of checking."""
        self.remembered: frozenset[int] = frozenset()
        """Positions of the guards that only a guard group evaluates."""
        self.root: object = tree.root
        self.thread_keys = thread_keys()
        """Dispatch keys that the thread includes and excludes: the tree compares tensors under these."""
        self._expired: list[Callable[[FailedGuard], None]] = []
        self._watch_expected()

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards, in the order of checking."""
        return tuple(each.strong_guard() if isinstance(each, Leaf) else each.guard for each in self.prepared)

    def holds(self, scope: Scope) -> bool:
        """Evaluate the tree in C++, as the hook does."""
        return bool(self.root.check(scope.locals))  # type: ignore[attr-defined]

    def holds_slowly(self, scope: Scope) -> bool:
        """Evaluate each guard's predicate in Python: the definition that the C++ tree is tested against."""
        return all(_holds(each, scope) for each in self.prepared)

    def failing(self, scope: Scope) -> Iterator[Leaf | Ambient]:
        """Guards whose predicates fail, in the order of checking."""
        return (each for each in self.prepared if not _holds(each, scope))

    def failure(self, scope: Scope, compile_id: str) -> FailedGuard | None:
        """The guard that fails for this call, with the value that differs; None if all hold."""
        return explain.failure(self, scope, compile_id)

    def failures(self, scope: Scope, compile_id: str) -> tuple[FailedGuard, ...]:
        """All guards that fail for this call."""
        return explain.all_failures(self, scope, compile_id)

    def watch(self, callback: Callable[[FailedGuard], None]) -> None:
        """Call back when an object that a guard compares by identity is freed: the check can never hold again."""
        self._expired.append(callback)

    def _watch_expected(self) -> None:
        expired = self._expired  # not self: a callback must not keep the check alive
        for number, item in enumerate(self.prepared):
            kept = item.guard.expected
            if isinstance(item, Leaf) and isinstance(kept, ExpectedObject):
                kept.on_death(_expiry_callback(expired, number, item))


def build_check(
    guards: tuple[Guard, ...],
    frame: Frame,
    group_guards: GroupGuards | None = None,
    conditions: Conditions | None = None,
) -> FrameCheck:
    """Compile guards into torch's guard tree. ``frame`` holds the values that were traced.

    ``group_guards`` divides guards about modules into groups with a cache; None: every guard runs at every call.
    ``conditions`` makes the conditions on sizes fast; None: they run as Python.

    Raises:
        GuardsDoNotHold: a guard is false of the very values that were traced.
    """
    return hooks.active().build_guard_tree(lambda: _build(guards, frame, group_guards, conditions))


def _build(
    guards: tuple[Guard, ...], frame: Frame, group_guards: GroupGuards | None, conditions: Conditions | None
) -> FrameCheck:
    known = SourceCache(frame.scope())
    with torch._C.DisableTorchFunction():  # no subclass or mode may observe the access
        # The steps: complete the guards, drop duplicates, order them, make a tree and one for each group, add each
        # guard to the manager of its source, and evaluate the tree once on the values that were traced.
        complete = (*guards, *_types_on_the_path(guards, known))
        # Of equal guards the first stays.
        unique = {_deduplication_key(guard, known): guard for guard in reversed(complete)}
        ordered = sorted(unique.values(), key=lambda guard: _order(guard, known))
        groups = () if group_guards is None else tuple(group_guards(ordered, known))
    #     root ── L['x']        a manager for each source, below that of its owner; the guards on a value are its leaves
    #          ── L['self']     ___unchanged(L['self'])  ──>  the tree of a group, from L['self'] on, with a cache
    #          ── relations     which values are one object or two, and the conditions on sizes
    compared = frozenset(_compared_sources(ordered))
    tree = GuardTree(frame, known, compared)
    # The tree of each guard: that of its group, or the main one.
    trees = dict.fromkeys(map(id, ordered), tree)
    types: dict[int, GuardTree] = {}
    for group in groups:
        region_tree = GuardTree(frame, known, compared, group.source)
        group.root = region_tree.root
        trees |= dict.fromkeys(map(id, group.guards), region_tree)
        types |= dict.fromkeys(map(id, group.types), region_tree)
    prepared = tuple(_prepare(guard, known, conditions) for guard in ordered)
    for guard, item in zip(ordered, prepared, strict=True):
        if isinstance(item, Ambient):
            item.install(tree)
        else:
            assert guard.source is not None
            with torch._C.DisableTorchFunction():
                item.install(trees[id(guard)].manager(guard.source))
                # A group must fail before it reads an attribute of an object of another class, though the class's
                # members are checked outside: the guard on the type is in both trees.
                if (in_group := types.get(id(guard))) is not None:
                    _of_object(guard, known).install(in_group.manager(guard.source))
    for group in groups:
        # In the main tree a group is one guard: a function that evaluates the group's tree, or
        # returns True at once if nothing changed since.
        tree.manager(group.source).add_lambda_guard(group.cache(), [group.text], None)
    # Installers refer to the traced values, which must not live as long as the cache entry.
    check = FrameCheck(tuple(item.installed() for item in prepared), tree, groups)
    check.remembered = frozenset(number for number, guard in enumerate(ordered) if trees[id(guard)] is not tree)
    # A check that fails for the call it was built for would never hold: each call would compile again.
    if not check.holds(known.scope):
        raise GuardsDoNotHold(next(check.failing(known.scope), None), check.failure(known.scope, ""))
    return check


def _of_object(guard: Guard, known: SourceCache) -> Leaf:
    """A guard on a type without its class members: in a group it fails before a guard on this type's attributes."""
    assert guard.source is not None
    return leaf(replace(guard, members=()), known.text(guard.source), known.value(guard.source))


def latency(check: FrameCheck, frame: Frame) -> float:
    """Latency of one evaluation in seconds, the best of five."""
    scope = frame.scope()

    def once() -> float:
        began = time.perf_counter()
        check.holds(scope)
        return time.perf_counter() - began

    return min(once() for _ in range(5))


class GuardsDoNotHold(RuntimeError):
    """A guard fails for the values that were traced: the cache entry would never be used.

    That is a bug of the compiler, with one exception: an assumption of the program about an unbacked size
    (``mark_unbacked``, ``torch._check``) may be wrong for the call that is traced.
    """

    def __init__(self, failing: Leaf | Ambient | None, failed: FailedGuard | None) -> None:
        super().__init__(f"a guard fails for the values that were traced: {failed.reason if failed else 'unknown'}")
        self.is_broken_promise = failing is not None and failing.guard.kind is GuardKind.SHAPE_ENV
        self.failed = failed


def _deduplication_key(guard: Guard, known: SourceCache) -> tuple[object, ...]:
    """Key that is equal for equal guards: one on a method depends on the class, whichever instance it is read from."""
    if isinstance(guard.source, MethodFunctionSource):
        return (type(known.value(guard.source.base)), guard.source.name, *guard.key()[1:])
    return guard.key()


def _prepare(guard: Guard, known: SourceCache, conditions: Conditions | None) -> Leaf | Ambient:
    if guard.kind in AMBIENT:
        return AMBIENT[guard.kind].check(guard, known.scope, conditions)
    assert guard.source is not None, f"{guard.kind} needs a source"
    with torch._C.DisableTorchFunction():
        return leaf(guard, known.text(guard.source), known.value(guard.source))


def _holds(prepared: Leaf | Ambient, scope: Scope) -> bool:
    if isinstance(prepared, Leaf):
        with torch._C.DisableTorchFunction():
            return evaluate_leaf(prepared, lambda source: fetch(source, scope))
    try:
        return prepared.holds(scope)
    except Exception:  # noqa: BLE001 - as in the C++ tree: a guard whose source cannot be resolved fails
        return False


_RANK = {kind: rank for rank, kind in enumerate(GuardKind)}
_RELATIONS = (
    GuardKind.OBJECT_ALIASING,
    GuardKind.NO_OBJECT_ALIASING,
    GuardKind.NO_TENSOR_ALIASING,
    GuardKind.SHAPE_ENV,
)


def _order(guard: Guard, known: SourceCache) -> tuple[int, bool, int, str, int]:
    """Sort key: the global state, then values (locals before globals, short sources first), then relations.

        GLOBAL_STATE   L['x']   L['x'].size   G['f']   NO_TENSOR_ALIASING   SHAPE_ENV

    Short sources first, so that a guard on a value runs before the guards on what is read from it.
    """
    if guard.kind in _RELATIONS:
        return 2, False, _RELATIONS.index(guard.kind), "", 0
    if guard.source is None:
        return 0, False, 0, "", _RANK[guard.kind]
    name = known.text(guard.source)
    return 1, isinstance(root(guard.source), GlobalSource), len(name), name, _RANK[guard.kind]


def _types_on_the_path(guards: Iterable[Guard], known: SourceCache) -> Iterator[Guard]:
    """Type guards on the owners along each source, where the tree reads another type in another way."""
    seen: set[Source] = set()
    for guard in guards:
        for source in (guard.source,) if guard.source is not None else _compared_sources((guard,)):
            step = source
            while not isinstance(step, RootSource) and step not in seen:
                seen.add(step)
                owner = known.value(step.base)
                if _depends_on_type(step, owner):
                    yield Guard(step.base, GuardKind.TYPE_MATCH, type(owner), guard.stack)
                step = step.base


def _depends_on_type(step: Source, owner: object) -> bool:
    match step:
        # An accessor of torch's tree is chosen by the type of its owner. For another type the same step may mean
        # something else (``owner[0]`` of a list and of a dict), so the type is checked before it.
        case ItemSource(_, key):
            return is_instance(owner, list | tuple) or (is_instance(owner, dict) and is_instance(key, int))
        case MethodFunctionSource() | GenericAttrSource():
            return True
        case AttrSource():
            return is_instance(owner, torch.nn.Module)
        case _:
            return False


def _compared_sources(guards: Iterable[Guard]) -> Iterator[Source]:
    """Sources whose values are compared with each other."""
    for guard in guards:
        if guard.kind is GuardKind.OBJECT_ALIASING:
            assert guard.source is not None
            yield guard.source
            yield guard.expected  # type: ignore[misc]
        elif guard.kind in (GuardKind.NO_TENSOR_ALIASING, GuardKind.NO_OBJECT_ALIASING):
            yield from guard.expected  # type: ignore[misc]
        elif isinstance(guard.expected, ShapeGuards):
            yield from guard.expected.sources


DELETED = "the object was deleted"


def _expiry_callback(expired: list[Callable[[FailedGuard], None]], number: int, leaf: Leaf) -> Callable[[], None]:
    def report_expiry() -> None:
        source = "" if leaf.guard.source is None else expression(leaf.guard.source)
        reason = shortened(leaf.text)
        failed = FailedGuard("", reason, f".g{number}", leaf.guard.stack, actual=DELETED, source=source)
        for callback in list(expired):
            callback(failed)

    return report_expiry
