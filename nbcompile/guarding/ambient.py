"""Guards that are about no single value: the state of the process, and relations between values.

    GLOBAL_STATE            grad mode, autocast, default dtype, threads, ... as when it was traced
    NO_TENSOR_ALIASING      L['x'] and L['y'] are two tensors
    SHAPE_ENV               2 <= L['x'].size()[0] and L['x'].size()[0] == L['y'].size()[0]

In torch: the same names in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

import builtins
import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, cast

import torch
import torch.overrides
import torch.utils._device

from nbcompile.capture.arrays import from_array
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    Scope,
    SizeSource,
    Source,
    TypeSource,
    expression,
    resolve,
)
from nbcompile.guarding.accessors import GuardTree
from nbcompile.guarding.guard_kinds import Kept
from nbcompile.record.model import StackLine
from nbcompile.torch_internals import guards, members, shape_guard_names


@dataclass(frozen=True, slots=True)
class Ambient:
    """One such guard, ready (compare ``leaves.Leaf``)."""

    guard: Guard
    text: str
    holds: Callable[[Scope], bool]
    install: Callable[[GuardTree], None]
    reason: Callable[[Scope], str]
    """Why it does not hold, where that says more than its text."""
    asked: object = None
    """Of the state: torch's object that remembers it; of the device: the device; of sizes: what is asked of locals."""
    parts: tuple[tuple[str, tuple[StackLine, ...], str], ...] = ()
    """Of a conjunction: each part with the user's code that needed it, or why the framework did."""

    def installed(self) -> Ambient:
        """The same without its installer, which may still hold what was traced."""
        return replace(self, install=_spent)


def _spent(_: object) -> None:
    raise AssertionError("a guard is installed once")


Check = Callable[[dict[str, object]], bool]
Conditions = Callable[[Sequence[str], dict[str, Any], Check], Check]
"""Makes conditions over ``L`` and ``G`` fast: given their texts, the globals, and the same as a function of Python."""


def ambient(guard: Guard, scope: Scope, conditions: Conditions | None = None) -> Ambient:
    """Prepare a guard about the process or about several values."""
    if guard.kind is GuardKind.SHAPE_ENV:
        return _shape_env(guard, scope, conditions)
    return _KINDS[guard.kind](guard, scope)


def _global_state(guard: Guard, scope: Scope) -> Ambient:
    state: Any = guards.GlobalStateGuard()
    text = "___check_global_state()"

    def install(tree: GuardTree) -> None:
        tree.root.add_global_state_guard(state, [text], None)
        tree.root.add_epilogue_lambda_guard(members.are_torchs_own, [text], None)

    def reason(scope: Scope) -> str:
        member = members.replaced_member()
        return f"{member} is replaced" if member is not None else f"GLOBAL_STATE changed: {state.reason()}"

    return Ambient(
        guard, text, lambda scope: bool(state.check()) and members.are_torchs_own(), install, reason, asked=state
    )


def _mode_stack(guard: Guard, scope: Scope) -> Ambient:
    modes = list(cast("tuple[object, ...]", guard.expected or ()))
    types = [Kept(type(mode)) for mode in modes]
    text = "___check_torch_function_mode_stack()"

    def holds(scope: Scope) -> bool:
        now = torch.overrides._get_current_function_mode_stack()
        return [id(type(mode)) for mode in now] == [kept.address for kept in types]

    weak = Guard(None, guard.kind, tuple(types), guard.stack)
    return Ambient(
        weak,
        text,
        holds,
        lambda tree: tree.root.add_torch_function_mode_stack_guard(modes, [text], None),
        lambda scope: text,
    )


def _default_device(guard: Guard, scope: Scope) -> Ambient:
    device = torch.utils._device.CURRENT_DEVICE
    text = f"utils_device.CURRENT_DEVICE == {device!r}"
    return Ambient(
        guard,
        text,
        lambda scope: device == torch.utils._device.CURRENT_DEVICE,
        lambda tree: tree.root.add_default_device_guard([text], None),
        lambda scope: text,
        asked=device,
    )


_top_hooks: Callable[[bool], tuple[object, object] | None] = torch._C._autograd._top_saved_tensors_default_hooks


def inlined_hooks() -> tuple[int, int] | None:
    """The addresses of the hooks on saved tensors that are traced into a graph now; None: there are none such."""
    return _inlined(_top_hooks(True))


def _inlined(hooks: tuple[object, object] | None) -> tuple[int, int] | None:
    """The hooks on saved tensors that AOTAutograd would trace into the graph: those that are graphs themselves."""
    if not hooks or not all(isinstance(each, torch.fx.GraphModule) for each in hooks):
        return None  # none, or Python that autograd calls with what any graph saves
    pack, unpack = hooks
    return id(pack), id(unpack)


def _saved_tensors_hooks(guard: Guard, scope: Scope) -> Ambient:
    expected = inlined_hooks()
    text = f"torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == {expected}"

    def same(_: object, top: Callable[[bool], tuple[object, object] | None] = _top_hooks) -> bool:
        hooks = top(True)  # C++ has no guard for it; this runs at every call, mostly to find none
        return (hooks is None and expected is None) or _inlined(hooks) == expected

    return Ambient(
        guard,
        text,
        same,
        lambda tree: tree.root.add_epilogue_lambda_guard(same, [text], None),
        lambda scope: text,
        asked=expected,
    )


def _no_aliasing(guard: Guard, scope: Scope) -> Ambient:
    sources = cast("tuple[Source, ...]", guard.expected)
    names = [expression(source) for source in sources]
    text = f"check_no_aliasing({', '.join(names)})"
    kind = "tensors" if guard.kind is GuardKind.NO_TENSOR_ALIASING else "objects"

    def duplicates(scope: Scope) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for source, name in zip(sources, names, strict=True):
            found.setdefault(id(resolve(source, scope)), []).append(name)
        return [group for group in found.values() if len(group) > 1]

    def install(tree: GuardTree) -> None:
        managers = [tree.manager(source) for source in sources]
        guards.install_no_tensor_aliasing_guard(managers, names, [text], None)

    return Ambient(
        guard,
        text,
        lambda scope: not duplicates(scope),
        install,
        lambda scope: f"Duplicate {kind} found: {', '.join(map(str, duplicates(scope)))}",
    )


def _object_aliasing(guard: Guard, scope: Scope) -> Ambient:
    first, second = cast("Source", guard.source), cast("Source", guard.expected)
    text = f"{expression(second)} is {expression(first)}"
    return Ambient(
        guard,
        text,
        lambda scope: resolve(first, scope) is resolve(second, scope),
        lambda tree: guards.install_object_aliasing_guard(tree.manager(first), tree.manager(second), [text], None),
        lambda scope: text,
    )


def shape_names(scope: Scope) -> dict[str, Any]:
    """What expressions over sizes mention, but for the locals."""
    names = {**vars(math), **shape_guard_names(), "G": scope.globals, "__builtins__": vars(builtins)}
    return {**names, "___from_numpy": from_array}


def _shape_env(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    assert isinstance(guard.expected, ShapeGuards)
    parts = guard.expected.expressions
    text = " and ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    names = shape_names(scope)
    readable, fetchers = readable_conditions(guard.expected, scope)
    names |= fetchers
    single = [(part, eval(f"lambda L: {each}", names)) for part, each in zip(parts, readable, strict=True)]
    check: Callable[[Any], bool] = eval(f"lambda L: {' and '.join(f'({each})' for each in readable) or 'True'}", names)

    def holds(scope: Scope) -> bool:
        return bool(check(scope.locals))

    def quietly(f_locals: dict[str, object]) -> bool:
        try:
            return bool(check(f_locals))
        except Exception:  # noqa: BLE001 - an address that leads nowhere: the other guards say so
            return False

    def reason(scope: Scope) -> str:
        for part, one in single:
            try:
                if not one(scope.locals):
                    return part
            except Exception:  # noqa: BLE001 - as above
                return part
        return text

    fast = quietly if conditions is None else conditions(readable, scope.globals, quietly)

    def install(tree: GuardTree) -> None:
        tree.root.add_epilogue_lambda_guard(fast, [text], None)

    shapes = guard.expected
    told = tuple(zip(parts, shapes.stacks, shapes.notes, strict=True)) if shapes.stacks else ()
    return Ambient(guard, text, holds, install, reason, fast, told)


def readable_conditions(shapes: ShapeGuards, scope: Scope) -> tuple[list[str], dict[str, Any]]:
    """The conditions as Python that reads what is meant, and the functions that it calls for that.

    Some addresses are spelt as torch spells them and are no Python (``L['d'][<class 'int'>]``), or Python that reads
    something else (``type(L['c']).f``, which means the function before it is bound): those are fetched.
    """
    fetchers: dict[str, Any] = {}
    spelt = {expression(each): expression(each) for each in shapes.sources}
    for source in shapes.sources:
        if not _is_spelt_in_python(source):
            name = f"___fetch_{len(fetchers)}"
            fetchers[name] = functools.partial(_fetched, source, scope.code, scope.globals, scope.builtins)
            spelt[expression(source)] = f"{name}(L)"
    if not fetchers:
        return list(shapes.expressions), {}
    longest_first = "|".join(map(re.escape, sorted(spelt, key=len, reverse=True)))
    mentioned = re.compile(rf"(?:{longest_first})(?!\w)")
    return [mentioned.sub(lambda found: spelt[found.group()], each) for each in shapes.expressions], fetchers


def _fetched(
    source: Source, code: CodeType, names: dict[str, object], builtin: dict[str, object], f_locals: dict[str, object]
) -> object:
    return resolve(source, Scope(code, f_locals, names, builtin))


def _is_spelt_in_python(source: Source) -> bool:
    match source:
        case LocalSource() | GlobalSource() | BuiltinSource():
            return True
        case ItemSource(base, key):
            return type(key) in (str, int, bool) and _is_spelt_in_python(base)
        case GenericAttrSource():
            return False
        case AttrSource(base) | SizeSource(base) | CellSource(base) | TypeSource(base) | ArraySource(base):
            return _is_spelt_in_python(base)
        case _:
            return False


_KINDS: dict[GuardKind, Callable[[Guard, Scope], Ambient]] = {
    GuardKind.GLOBAL_STATE: _global_state,
    GuardKind.TORCH_FUNCTION_MODE_STACK: _mode_stack,
    GuardKind.DEFAULT_DEVICE: _default_device,
    GuardKind.SAVED_TENSORS_HOOKS: _saved_tensors_hooks,
    GuardKind.NO_TENSOR_ALIASING: _no_aliasing,
    GuardKind.NO_OBJECT_ALIASING: _no_aliasing,
    GuardKind.OBJECT_ALIASING: _object_aliasing,
}
AMBIENT_KINDS = frozenset((*_KINDS, GuardKind.SHAPE_ENV))
