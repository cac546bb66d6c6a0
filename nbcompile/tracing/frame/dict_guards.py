"""Guards that keep dicts and the attributes of objects apart where one of them changes.

    def f(o, d): o.a = 5; return d["a"]      d is not o.__dict__, nor another object's

In torch: nothing. Read next: nbcompile/tracing/wrapping/attribute_dicts.py
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from typing import cast

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ItemSource, LocalSource, ModuleSource, Source
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.real_class import is_instance
from nbcompile.tracing.calls.attributes import is_module_scope
from nbcompile.tracing.effects.attribute_dicts import AttributeOwner
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.protocol import Change, GlobalChange
from nbcompile.tracing.variables.lookup import dict_source
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.nn_module import STORES
from nbcompile.tracing.variables.self_dicts import is_own_dict

Apart = dict[int, Source]
"""Sources of dicts that must stay different objects, by the id of the real dict."""
MANY_PAIRS = 12
"""The number of pairs above which one guard checks that all differ, instead of one for each pair."""


def guard_dicts(interpreter: Interpreter) -> None:
    """Guard that a changed dict is not that of an object that is read, nor a changed object's a dict that is read."""
    effects = interpreter.side_effects
    effects.attribute_dicts.look_at_owners()
    _guard_globals(interpreter)
    changes = [change for change in effects.order if isinstance(change, Change) and change.tracker.source is not None]
    if not changes:
        return
    dicts = _plain_dicts(interpreter)
    for change in changes:
        source = change.tracker.source
        if source is not None:
            _guard_own_dict(interpreter, source)
        if change.items and source is not None and source in dicts.values():
            real = cast("dict[object, object]", interpreter.real_value(source))
            _keep_apart(interpreter, {id(real): source}, _readable(interpreter, real))
    stored = {id(change.tracker.identity()) for change in changes if change.attributes}
    # Dicts of modules that are read have keys that are guarded, which a plain dict of the program hardly has.
    changed = [owner for owner in effects.attribute_dicts.read if id(owner.tracker.identity()) in stored]
    # A later call could bring, as a plain dict or as another object, the very dict that changes here.
    if changed:
        others = _of_owners(_that_are_read(interpreter, effects.attribute_dicts.read), modules=False)
        _keep_apart(interpreter, _of_owners(changed, modules=True), others | dicts)


def _guard_globals(interpreter: Interpreter) -> None:
    """Guard that no plain dict that is read is the globals of a module that changes."""
    effects = interpreter.side_effects
    scopes = {id(change.scope): change.scope for change in effects.order if isinstance(change, GlobalChange)}
    dicts = _plain_dicts(interpreter) if scopes else {}
    for scope in scopes.values():
        name = str(scope.get("__name__"))
        if is_module_scope(name, scope):
            for source in dicts.values():
                _guard_distinct(interpreter, source, AttrSource(ModuleSource(name), "__dict__"))


def _guard_own_dict(interpreter: Interpreter, source: Source) -> None:
    """Guard that a dict with attributes that changes does not become one that is its own ``__dict__``."""
    real = interpreter.real_value(source)
    cls = type(real)
    if is_instance(real, dict) and cls.__dictoffset__ and cls.__flags__ & HEAP_TYPE and not is_own_dict(real):
        _guard_distinct(interpreter, source, dict_source(source, cls))


def _plain_dicts(interpreter: Interpreter) -> Apart:
    found: Apart = {}
    for tracker in interpreter.side_effects.trackers.values():
        if type(tracker) is DictVariable and tracker.source is not None and not _is_fresh(interpreter, tracker.source):
            found[id(interpreter.real_value(tracker.source))] = tracker.source
    return found


def _is_fresh(interpreter: Interpreter, source: Source) -> bool:
    """True of the dict of ``**named``, which Python makes for each call."""
    code = interpreter.output.frame.code
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return False
    index = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return source == LocalSource(code.co_varnames[index])


def _readable(interpreter: Interpreter, changed: dict[object, object]) -> Apart:
    """Dicts of attributes that may be the changed one, whose keys are guarded: those of modules have certain keys."""
    owners = _that_are_read(interpreter, interpreter.side_effects.attribute_dicts.read)
    found = _of_owners(owners, modules="_parameters" in changed or "__name__" in changed)
    for guard in interpreter.output.guards.values():
        match guard.source:
            case ItemSource(base=AttrSource(attribute=store) as base, key=name) if store in STORES and name in changed:
                found[id(interpreter.real_value(base))] = base
    return found


def _that_are_read(interpreter: Interpreter, owners: Iterable[AttributeOwner]) -> list[AttributeOwner]:
    """The owners of which the frame read an attribute, or checked its absence."""
    guarded: set[Source] = set()
    absence = (GuardKind.HASATTR, GuardKind.NOT_IN_GENERIC_DICT)
    sources = [unread.source for unread in interpreter.output.left_unread]
    for guard in interpreter.output.guards.values():
        sources.append(guard.source)
        if guard.kind in absence and guard.source is not None:
            guarded.add(guard.source)
    for address in sources:
        # A read of ``o.a[0]`` is a read of ``o.a`` and of ``o``, too.
        below = address
        while isinstance(below, (ItemSource, AttrSource)):
            below = below.base
            guarded.add(below)
    return [owner for owner in owners if owner.tracker.source in guarded]


def _of_owners(owners: Iterable[AttributeOwner], *, modules: bool) -> Apart:
    found: Apart = {}
    for owner in owners:
        members = owner.members()
        if members is not None and (modules or not isinstance(owner.value, (torch.nn.Module, types.ModuleType))):
            source = owner.tracker.source
            if source is not None:
                found.setdefault(id(members), dict_source(source, type(owner.value)))
    return found


def _keep_apart(interpreter: Interpreter, changed: Apart, others: Apart) -> None:
    """Guard that no changed dict is another one of these; those that are only read may be the same."""
    rest = [source for real, source in others.items() if real not in changed]
    if len(changed) * len(rest) > MANY_PAIRS:
        _guard_distinct(interpreter, *changed.values(), *rest)
        return
    _guard_distinct(interpreter, *changed.values())
    for source in changed.values():
        for other in rest:
            _guard_distinct(interpreter, source, other)


def _guard_distinct(interpreter: Interpreter, *apart: Source) -> None:
    # Dicts that are the same in this call have one source, and one guard for all: apart in each later call.
    distinct = tuple(dict.fromkeys(apart))
    if len(distinct) > 1:
        interpreter.output.guard(None, GuardKind.NO_OBJECT_ALIASING, distinct)
