"""Explanations of guards: what each one checks, and which one fails for a call.

    describe(check, "0/0")     0/0.g3  TENSOR_MATCH  L['x']  check_tensor(L['x'], ...)
    failure(check, scope, "0/0")     tensor 'x' size mismatch at index 0. expected 3, actual 4

Both read the prepared guards of the check itself, so what is shown is what runs.

In torch: get_guard_fail_reason in torch/_dynamo/guards.py. Read next: nbcompile/recording/entries.py
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import torch

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.resolution import Scope, keys_of, resolve
from nbcompile.capture.source import Source, expression
from nbcompile.guarding.encodings.sentences import shortened
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES
from nbcompile.guarding.prepared import Ambient, Leaf
from nbcompile.guarding.values import describe_value, is_same_value
from nbcompile.record import model

if TYPE_CHECKING:
    from nbcompile.guarding.check import FrameCheck


def failure(check: FrameCheck, scope: Scope, compile_id: str) -> model.FailedGuard | None:
    """The guard that fails for a call; None if all hold.

    The C++ tree is evaluated. If its message has the text of a guard, or the
    name of its tensor, it is that guard; else the first whose predicate fails.
    """
    # The C++ tree decides about this call. If its message names no guard, the predicates in Python, which define the
    # guards, find the one that fails.
    message = _message(check.root.check_verbose(scope.locals))  # type: ignore[attr-defined]
    if message is None:
        return None
    # The main tree reports only that a group fails; the group's own tree reports which guard of the group fails.
    for group in check.groups:
        if message == group.text:
            message = _message(group.root.check_verbose(resolve(group.source, scope))) or message
    failing = _guard_named_in(message, check, scope) or next(check.failing(scope), None)
    if failing is None:
        return model.FailedGuard(compile_id, shortened(message))
    reason = message
    if isinstance(failing, Ambient) and (message in ("", failing.text) or message.startswith(_DUPLICATE)):
        reason = failing.reason(scope)
    if failing.guard.kind is GuardKind.DICT_KEYS:
        reason = _first_different_key(failing.guard, scope) or reason
    return _failed(check, failing, reason, scope, compile_id)


def all_failures(check: FrameCheck, scope: Scope, compile_id: str) -> tuple[model.FailedGuard, ...]:
    """All guards that fail, in the order of checking."""
    return tuple(
        _failed(check, item, item.reason(scope) if isinstance(item, Ambient) else item.text, scope, compile_id)
        for item in check.failing(scope)
    )


def _failed(
    check: FrameCheck, failing: Leaf | Ambient, reason: str, scope: Scope, compile_id: str
) -> model.FailedGuard:
    number = check.prepared.index(failing)
    guard = failing.guard
    stack, note = guard.stack, ""
    source, expected = "" if guard.source is None else expression(guard.source), ""
    if isinstance(failing, Leaf):
        expected, actual = failing.expected_text(), _actual_value(guard.source, scope)
    else:
        # A conjunction is explained by the part that fails, with the line that required that part.
        stack, note = next(((lines, why) for part, lines, why in failing.parts if part == reason), (stack, note))
        if (relation := failing.relation(reason)) is not None:
            source, expected = relation.subject, relation.expected
            actual = _described_or_missing(lambda: relation.value(scope.locals))
        else:
            actual = _actual_value(guard.source, scope)
    text = shortened(reason or failing.text)
    return model.FailedGuard(compile_id, text, f"{compile_id}.g{number}", stack, expected, actual, source, note)


def _first_different_key(guard: Guard, scope: Scope) -> str:
    """The difference found by a guard on all keys of a dict: their number, or the first different key."""
    source, keys = cast("Source", guard.source), cast("tuple[object, ...]", guard.expected)
    name = expression(source)
    with contextlib.suppress(Exception):  # the source cannot be resolved, or not to a dict
        found = tuple(keys_of(resolve(source, scope)))
        if len(found) != len(keys):
            return f"len({name}) != {len(keys)}"
        for index, (key, now) in enumerate(zip(keys, found, strict=True)):
            if not is_same_value(now, key):
                return f"list(dict.keys({name}))[{index}] == {key!r}"
    return ""


def _message(verdict: Any) -> str | None:
    """The guard tree's message about the guard that fails; None if all hold."""
    if verdict.result:
        return None
    return verdict.verbose_code_parts[0] if verdict.verbose_code_parts else ""


# The C++ message does not say which tensors, and is the same for objects that are no tensors.
_DUPLICATE = "Duplicate tensor found"
_ALL_DIFFERENT = (GuardKind.NO_TENSOR_ALIASING, GuardKind.NO_OBJECT_ALIASING)


def describe(
    check: FrameCheck, compile_id: str, tests: Iterable[str] = itertools.repeat("")
) -> tuple[model.Guard, ...]:
    """Record entries of all guards, in the order of checking; ``tests`` are the trees that a page evaluates."""
    entries = []
    for number, (item, test) in enumerate(zip(check.prepared, tests, strict=False)):
        guard = item.strong_guard() if isinstance(item, Leaf) else item.guard
        source = "" if guard.source is None else expression(guard.source)
        kind = guard.kind.value
        entries.append(model.Guard(f"{compile_id}.g{number}", kind, source, item.text, words(guard), guard.stack, test))
    return tuple(entries)


def words(guard: Guard) -> str:
    """A guard in plain words."""
    name = shortened(expression(guard.source)) if guard.source is not None else ""
    name = re.sub(r"\bG\['(\w+)'\]", r"\1", name)
    row = LEAVES.get(guard.kind) or AMBIENT[guard.kind]
    return row.sentence(name, guard.expected)


def _guard_named_in(message: str, check: FrameCheck, scope: Scope) -> Leaf | Ambient | None:
    for item in check.prepared:
        if item.text == message and message:
            return item
    for item in check.prepared:
        source = item.guard.source
        if source is not None and item.guard.kind is GuardKind.TENSOR_MATCH and f"'{expression(source)}'" in message:
            return item
    if message.startswith(_DUPLICATE):
        return next((item for item in check.failing(scope) if item.guard.kind in _ALL_DIFFERENT), None)
    if message.startswith("GLOBAL_STATE"):
        return next((item for item in check.prepared if item.guard.kind is GuardKind.GLOBAL_STATE), None)
    return None


def _actual_value(source: Source | None, scope: Scope) -> str:
    return "" if source is None else _described_or_missing(lambda: resolve(source, scope))


def _described_or_missing(read: Callable[[], object]) -> str:
    try:
        with torch._C.DisableTorchFunction():  # no subclass or mode may observe the access
            return describe_value(read())
    except Exception as error:  # noqa: BLE001 - the source cannot be resolved: that is the difference
        return f"nothing ({type(error).__name__})"
