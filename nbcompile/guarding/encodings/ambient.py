"""Guards on no single value, prepared: the global state, and relations between values.

    GLOBAL_STATE            grad mode, autocast, default dtype, threads, ... are as at tracing
    NO_TENSOR_ALIASING      L['x'] and L['y'] are two tensors
    SHAPE_ENV               2 <= L['x'].size()[0] and L['x'].size()[0] == L['y'].size()[0]

In torch: the same names in torch/_dynamo/guards.py. Read next:
nbcompile/guarding/encodings/page_trees.py
"""

from __future__ import annotations

import builtins
import functools
import math
import re
from collections.abc import Callable
from types import CodeType
from typing import Any, cast

import torch
import torch.overrides
import torch.utils._device

from nbcompile.capture.arrays import from_array
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    SizeSource,
    Source,
    TypeSource,
    expression,
)
from nbcompile.guarding.accessors import GuardTree
from nbcompile.guarding.prepared import Ambient, Conditions, ExpectedObject
from nbcompile.guarding.relations import Relation, relation
from nbcompile.torch_internals import forward_level, guards, members, shape_guard_names, transform_levels


def global_state(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    state: Any = guards.GlobalStateGuard()
    level = forward_level()  # of forward-mode AD: torch's state lacks it, and compiled code drops tangents
    text = "___check_global_state()"

    def more(_: object = None) -> bool:
        return members.are_torchs_own() and forward_level() == level

    def install(tree: GuardTree) -> None:
        tree.root.add_global_state_guard(state, [text], None)
        # The epilogue runs after all other guards, so this Python function is called only for calls that pass them.
        tree.root.add_epilogue_lambda_guard(more, [text], None)

    def reason(scope: Scope) -> str:
        member = members.replaced_member()
        if member is not None:
            return f"{member} is replaced"
        what = state.reason() if forward_level() == level else "forward-mode level "
        return f"GLOBAL_STATE changed: {what}"

    return Ambient(
        guard, text, lambda scope: bool(state.check()) and more(), install, reason, expected_state=(state, level)
    )


def mode_stack(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    modes = list(cast("tuple[object, ...]", guard.expected or ()))
    # By class: a mode is often created anew for each call (``with Mode(): f(x)``).
    types = [ExpectedObject(type(mode)) for mode in modes]
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


def default_device(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    device = torch.utils._device.CURRENT_DEVICE
    text = f"utils_device.CURRENT_DEVICE == {device!r}"
    return Ambient(
        guard,
        text,
        lambda scope: device == torch.utils._device.CURRENT_DEVICE,
        lambda tree: tree.root.add_default_device_guard([text], None),
        lambda scope: text,
        expected_state=device,
    )


_top_hooks: Callable[[bool], tuple[object, object] | None] = torch._C._autograd._top_saved_tensors_default_hooks


def inlined_hooks() -> tuple[int, int] | None:
    """Addresses of the current hooks on saved tensors that would be traced into a graph; None if there are none."""
    return _inlined_hooks(_top_hooks(True))


def _inlined_hooks(hooks: tuple[object, object] | None) -> tuple[int, int] | None:
    """The hooks on saved tensors that AOTAutograd would trace into the graph: those that are graphs themselves."""
    if not hooks or not all(isinstance(each, torch.fx.GraphModule) for each in hooks):
        return None  # no hooks, or Python functions, which autograd calls at run time
    pack, unpack = hooks
    return id(pack), id(unpack)


def saved_tensors_hooks(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    expected = inlined_hooks()
    text = f"torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == {expected}"

    def same(_: object, top: Callable[[bool], tuple[object, object] | None] = _top_hooks) -> bool:
        hooks = top(True)  # C++ has no such guard; this runs at every call, and mostly finds none
        return (hooks is None and expected is None) or _inlined_hooks(hooks) == expected

    return Ambient(
        guard,
        text,
        same,
        lambda tree: tree.root.add_epilogue_lambda_guard(same, [text], None),
        lambda scope: text,
        expected_state=expected,
    )


def transforms(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    expected = cast("tuple[tuple[str, int], ...]", guard.expected)
    text = f"torch._functorch.pyfunctorch.compare_functorch_state({list(expected)})"

    def same(_: object) -> bool:
        return transform_levels() == expected

    return Ambient(guard, text, same, lambda tree: tree.root.add_lambda_guard(same, [text], None), lambda scope: text)


def no_aliasing(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    sources = cast("tuple[Source, ...]", guard.expected)
    names = [expression(source) for source in sources]
    text = f"check_no_aliasing({', '.join(names)})"
    kind = "tensors" if guard.kind is GuardKind.NO_TENSOR_ALIASING else "objects"

    def duplicates(scope: Scope) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        values = [resolve(source, scope) for source in sources]  # all alive, so that no two have one address
        for value, name in zip(values, names, strict=True):
            found.setdefault(id(value), []).append(name)
        return [group for group in found.values() if len(group) > 1]

    # One guard of torch's for all of them: each manager reports its value, and a second report of one address fails. It
    # compares only addresses, and so also works for objects that are not tensors.
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


def object_aliasing(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
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
    """Names that expressions over sizes may mention, except for the locals."""
    names = {**vars(math), **shape_guard_names(), "G": scope.globals, "__builtins__": vars(builtins)}
    return {**names, "___from_numpy": from_array}


def shape_env(guard: Guard, scope: Scope, conditions: Conditions | None) -> Ambient:
    assert isinstance(guard.expected, ShapeGuards)
    parts = guard.expected.expressions
    text = " and ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    names = shape_names(scope)
    readable, fetchers = readable_conditions(guard.expected, scope)
    names |= fetchers
    single = [(part, eval(f"lambda L: {each}", names)) for part, each in zip(parts, readable, strict=True)]
    # The whole conjunction as one function, for speed. ``single`` has each part, to say which one fails.
    check: Callable[[Any], bool] = eval(f"lambda L: {' and '.join(f'({each})' for each in readable) or 'True'}", names)

    def holds(scope: Scope) -> bool:
        return bool(check(scope.locals))

    def quietly(f_locals: dict[str, object]) -> bool:
        try:
            return bool(check(f_locals))
        except Exception:  # noqa: BLE001 - a source that cannot be resolved: other guards fail, too
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
    parts_with_origin = tuple(zip(parts, shapes.stacks, shapes.notes, strict=True)) if shapes.stacks else ()

    def split(part: str) -> Relation | None:
        return relation(part, names) if part in readable else None

    return Ambient(guard, text, holds, install, reason, fast, parts_with_origin, split)


def readable_conditions(shapes: ShapeGuards, scope: Scope) -> tuple[list[str], dict[str, Any]]:
    """The conditions as executable Python, and the functions that it calls.

    The text of some sources is no Python (``L['d'][<class 'int'>]``), or Python with another meaning
    (``type(L['c']).f``, where the unbound function is meant): a function call replaces them.
    """
    fetchers: dict[str, Any] = {}
    python_text = {expression(each): expression(each) for each in shapes.sources}
    for source in shapes.sources:
        if not _is_python_expression(source):
            name = f"___fetch_{len(fetchers)}"
            fetchers[name] = functools.partial(_fetch, source, scope.code, scope.globals, scope.builtins)
            python_text[expression(source)] = f"{name}(L)"
    if not fetchers:
        return list(shapes.expressions), {}
    # Longest first, and only where no letter follows: ``L['x']`` is also the beginning of ``L['x'].size()``.
    longest_first = "|".join(map(re.escape, sorted(python_text, key=len, reverse=True)))
    mentioned = re.compile(rf"(?:{longest_first})(?!\w)")
    return [mentioned.sub(lambda found: python_text[found.group()], each) for each in shapes.expressions], fetchers


def _fetch(
    source: Source, code: CodeType, names: dict[str, object], builtin: dict[str, object], f_locals: dict[str, object]
) -> object:
    return resolve(source, Scope(code, f_locals, names, builtin))


def _is_python_expression(source: Source) -> bool:
    match source:
        case LocalSource() | GlobalSource() | BuiltinSource():
            return True
        case ItemSource(base, key):
            # The text of other keys need not be Python for the same value:
            # ``nan``, ``<class 'int'>``.
            return type(key) in (str, int, bool) and _is_python_expression(base)
        case GenericAttrSource():
            return False
        case AttrSource(base) | SizeSource(base) | CellSource(base) | TypeSource(base) | ArraySource(base):
            return _is_python_expression(base)
        case _:
            return False
