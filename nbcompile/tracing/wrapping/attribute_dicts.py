"""Dicts from outside that are the attributes of an object: one thing under two names.

    def f(o, d):        f(o, o.__dict__)
        o.a = 5
        return d["a"]   5

A dict that turns out to be the ``__dict__`` of an object that the frame knows becomes a window on that object's
attributes, whichever of the two was found first. What cannot be shown so ends the graph: a dict that was changed before
its object was found, and two objects with one dict.

In torch: nothing; it reads the old value. Read next: nbcompile/tracing/variables/instance_dict.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, Source
from nbcompile.support.real_class import is_instance
from nbcompile.tracing import breaks
from nbcompile.tracing.effects.attribute_dicts import AttributeOwner
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.classes import ModuleVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.instance_dict import Look, dict_view_of
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.namespaces import NamespaceVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.self_dicts import SelfDictVariable
from nbcompile.tracing.variables.tensor import TensorVariable

Make = Callable[[Tracer, Any, Source | None], VariableTracker]
"""Maker of the tracker of a value of some kind."""


def wrap_noting_attributes(tracer: Tracer, value: object, source: Source | None, make: Make) -> VariableTracker:
    """Make the tracker of a real value; tie an object and its dict together once both are known."""
    dicts = tracer.side_effects.attribute_dicts
    if is_instance(value, dict) and type(value).__dictoffset__ == 0:
        dicts.look_at_owners()
        owner = dicts.owners.get(id(value))
        # Its owner may still come: the id is kept, and what is wrapped later is compared with it.
        if owner is None:
            dicts.plain.add(id(value))
            return make(tracer, value, source)
        if type(value) is not dict:  # its methods may run any code
            _unsupported(f"{type(value).__name__} that is the __dict__ of an object")
        # Remembered first: wrapping finds the window for this value and only adds the guard.
        window = _window(tracer, owner)
        tracer.side_effects.remember(value, window)
        return tracer.wrap(value, source)  # guards that it is that object's
    tracker = make(tracer, value, source)
    if is_instance(value, dict):
        dicts.look_at_owners()
        if id(value) in dicts.owners:
            _unsupported(f"{type(value).__name__} that is the __dict__ of an object")
    if is_instance(value, type) or not (type(value).__dictoffset__ or isinstance(tracker, ObjectVariable)):
        return tracker
    dicts.unread.append(AttributeOwner(value, tracker))
    # Most frames have no plain dict from outside: there, no object's dict is looked at, and none is created by looking.
    if dicts.plain or isinstance(tracker, ObjectVariable):
        for owner in dicts.look_at_owners():
            _tie(tracer, owner)
    return tracker


def _tie(tracer: Tracer, owner: AttributeOwner) -> None:
    """The object's dict may have been found as a plain one, or as another object's."""
    members = owner.members()
    other = tracer.side_effects.attribute_dicts.owners[id(members)]
    if other.value is not owner.value:
        if tracer.side_effects.stored_attributes(other.tracker):
            _unsupported("two objects with one __dict__")
        tracer.side_effects.attribute_dicts.shared |= {id(other.tracker.identity()), id(owner.tracker.identity())}
    known = tracer.side_effects.known(members)
    if known is not None and type(members) is not dict and not isinstance(known, SelfDictVariable):
        _unsupported(f"{type(members).__name__} that is the __dict__ of an object")
    if type(known) is not DictVariable:
        return
    # Its items have been replaced by the program's own, which the object's attributes would have to follow.
    if known.changed:
        _unsupported("dict that is the __dict__ of an object")
    window = _window(tracer, owner)
    if known.source is not None and window.source is not None:
        tracer.guard(known.source, GuardKind.OBJECT_ALIASING, window.source)
    # The program holds this very tracker, in variables and iterators: it becomes the window itself.
    known.__class__ = type(window)
    known.__dict__ = window.__dict__
    tracer.side_effects.remember(members, known)


def _window(tracer: Tracer, owner: AttributeOwner) -> DictVariable:
    tracker = owner.tracker
    if isinstance(tracker, ModuleVariable):
        source = tracker.source
        scope = cast("dict[str, object]", owner.members())
        return NamespaceVariable(tracer, scope, None if source is None else AttrSource(source, "__dict__"))
    if isinstance(tracker, ObjectVariable):  # past any ``__getattribute__`` of the program
        found = tracker.generic_attribute(tracer, "__dict__")
    elif isinstance(tracker, (PartialVariable, FunctionVariable)):
        found = tracker.get_attribute(tracer, "__dict__")
    elif isinstance(tracker, TensorVariable):
        found = dict_view_of(tracer, tracker, owner.members() or {}, _attribute_of(tracker))
    else:
        found = None
    if isinstance(found, DictVariable) and type(found) is not DictVariable:
        return found
    _unsupported("dict that is the __dict__ of an object")


def _attribute_of(tracker: VariableTracker) -> Look:
    base = tracker.source
    return lambda tracer, name, value: tracer.wrap(value, None if base is None else AttrSource(base, name))


def _unsupported(name: str) -> NoReturn:
    raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, name, name=name)
