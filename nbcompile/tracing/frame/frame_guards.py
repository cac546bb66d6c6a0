"""Guards of a frame as a whole, beyond those of single inputs: process state, marks on tensors, aliasing.

    def f(x, y): x.add_(1); return y * 2      x is not y: the graph would read the written tensor

They are added when the whole frame is traced, since what is changed is known only then.

In torch: torch/_dynamo/output_graph.py (init_ambient_guards) and variables/builder.py (NO_TENSOR_ALIASING).
Read next: nbcompile/capture/guard.py
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import cast

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard, GuardKind, TensorMarks, subclass_checks
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    GlobalSource,
    ModuleSource,
    NoArgsCallSource,
    ParameterSource,
    Source,
)
from nbcompile.tracing.frame.dict_guards import guard_dicts
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.inputs.dynamism import is_module_state
from nbcompile.tracing.protocol import Change
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.cells import CellVariable

MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
)
"""Attributes that mark_dynamic, mark_static and their siblings leave on a tensor."""

TOKEN = NoArgsCallSource(AttrSource(ModuleSource("abc"), "get_cache_token"))
"""Token that changes whenever a class is registered with an abstract one."""


def frame_guards(interpreter: Interpreter) -> tuple[Guard, ...]:
    """Guards of a traced frame, those of its inputs included."""
    output = interpreter.output
    _guard_tensors(interpreter)
    _guard_changed(interpreter)
    guard_dicts(interpreter)
    _guard_nans(interpreter)
    _guard_distinct(interpreter, [tracker.source for tracker in interpreter.side_effects.hashed.values()])
    modes = tuple(torch_internals.function_modes())
    # These depend on no input: the state in which the process was when the frame was called.
    process_guards = tuple(
        Guard(None, kind, modes if kind is GuardKind.TORCH_FUNCTION_MODE_STACK else None)
        for kind in (
            GuardKind.GLOBAL_STATE,
            GuardKind.TORCH_FUNCTION_MODE_STACK,
            GuardKind.DEFAULT_DEVICE,
            GuardKind.SAVED_TENSORS_HOOKS,
        )
    )
    levels = torch_internals.transform_levels()
    transforms = [Guard(None, GuardKind.TRANSFORMS, levels)] if levels else []
    return (*process_guards, *transforms, *output.guards_on_members(), *_subclass_guards(interpreter))


def _subclass_guards(interpreter: Interpreter) -> Iterator[Guard]:
    """One guard on all answers of abstract classes: a class may be registered between two calls."""

    def real(value: object) -> object:
        return value if isinstance(value, type) else interpreter.real_value(cast("Source", value))

    checked = [(real(value), real(cls), answer) for value, cls, answer in interpreter.assumed.subclasses]
    if answers := subclass_checks(checked):
        yield Guard(TOKEN, GuardKind.SUBCLASSES, answers)


def registries_grew(guards: Iterable[Guard], scope: Scope) -> bool:
    """True if a global dict of some module has more keys than while it was traced.

    The first operator of a process imports parts of torch, which register classes with pytrees: ``tree_flatten`` was
    traced with the registry of before.
    """
    for guard in guards:
        if guard.kind not in (GuardKind.DICT_KEYS, GuardKind.DICT_LENGTH, GuardKind.DICT_CONTAINS):
            continue
        match guard.source:
            case GlobalSource() | AttrSource(base=ModuleSource()):
                value = resolve(guard.source, scope)
            case _:
                continue
        if isinstance(value, dict) and _has_grown(value, guard):
            return True
    return False


def _has_grown(registry: dict[object, object], guard: Guard) -> bool:
    match guard.kind:
        case GuardKind.DICT_CONTAINS:
            key, contains = cast("tuple[object, bool]", guard.expected)
            return isinstance(key, type) and (key in registry) is not contains
        case GuardKind.DICT_LENGTH:
            return dict.__len__(registry) != guard.expected
        case _:
            return dict.__len__(registry) != len(cast("tuple[object, ...]", guard.expected))


def expect_attributes(interpreter: Interpreter) -> None:
    """Add guards that attributes which were read but not used exist: the residual program may read them again."""
    for unread in interpreter.output.left_unread:
        # An attribute that was passed on unread still must exist, since the residual program reads it again.
        if unread.realised is None and type(unread.source) is AttrSource:
            interpreter.guard(unread.source.base, GuardKind.HASATTR, (unread.source.attribute, True))


def _guard_changed(interpreter: Interpreter) -> None:
    """An input that the program changes is not, under another name, one that it reads."""
    # The trace kept one tracker for each object. If the next call gave one object under two names, a change through one
    # name would have to show through the other: so they are guarded to be different, by class, where one is changed.
    effects = interpreter.side_effects
    changed = [change.tracker for change in effects.order if isinstance(change, Change)]
    if any(isinstance(tracker, CellVariable) for tracker in changed):
        cells = [tracker for tracker in effects.trackers.values() if isinstance(tracker, CellVariable)]
        _guard_distinct(interpreter, [cell.address() for cell in cells])
    for kind in {tracker.python_type() for tracker in changed if tracker.source is not None}:
        if not issubclass(kind, (torch.Tensor, types.CellType)):
            _guard_distinct(interpreter, _sources_of_kind(effects.trackers.values(), kind))


def _guard_nans(interpreter: Interpreter) -> None:
    """NaNs that are one object stay one, others stay different: ``is``, ``in`` and keys of dicts distinguish them."""
    addresses: dict[int, Source] = {}
    for guard in list(interpreter.output.guards.values()):
        if guard.kind is GuardKind.NAN_MATCH and guard.source is not None:
            first = addresses.setdefault(id(guard.expected), guard.source)
            if first != guard.source:
                interpreter.output.guard(guard.source, GuardKind.OBJECT_ALIASING, first)
    _guard_distinct(interpreter, addresses.values())


def _sources_of_kind(trackers: Iterable[VariableTracker], kind: type) -> list[Source | None]:
    """The sources of the objects of a class that the frame can read; a cell is guarded by its address."""
    found = [tracker for tracker in trackers if tracker.source is not None and not isinstance(tracker, CellVariable)]
    return [tracker.source for tracker in found if tracker.python_type() is kind]


def _guard_distinct(interpreter: Interpreter, sources: Iterable[Source | None]) -> None:
    distinct = tuple(dict.fromkeys(source for source in sources if source is not None))
    if len(distinct) > 1:
        interpreter.output.guard(None, GuardKind.NO_OBJECT_ALIASING, distinct)


def _guard_tensors(interpreter: Interpreter) -> None:
    """Inputs that are different tensors stay different; the user's marks on their dims stay as they are."""
    output = interpreter.output
    tensors = [
        (node.meta[EXAMPLE], source)
        for node, source in output.inputs.placeholders
        if isinstance(node.meta[EXAMPLE], torch.Tensor) and not isinstance(source, (ArraySource, ParameterSource))
    ]
    inputs = [
        source
        for example, source in tensors
        if not isinstance(example, torch.nn.Parameter) and not is_module_state(source)
        if isinstance(interpreter.real_value(source), torch.Tensor)  # and no number that is passed as one
    ]
    for source in inputs:
        real = interpreter.real_value(source)
        present = tuple((mark, frozenset(getattr(real, mark))) for mark in MARKS if getattr(real, mark, None))
        absent = tuple(mark for mark in MARKS if not getattr(real, mark, None))
        output.guard(source, GuardKind.DIMENSION_MARKING, TensorMarks(present, absent))
    if len(inputs) > 1:
        output.guard(None, GuardKind.NO_TENSOR_ALIASING, tuple(inputs))
