"""Reconstruction: from trackers to recipes, with which the residual program creates the values.

When the graph ends, the live values (the result; at a break the operand stack
and the live locals) and the recorded side effects are converted to recipes.
Nodes that a recipe needs become the graph's outputs, in that order.

In torch: torch/_dynamo/codegen.py (PyCodegen) and SideEffects.codegen_*. Read
next: nbcompile/rewriting/residual.py
"""

from __future__ import annotations

import collections
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeGuard

import torch
import torch.fx

from nbcompile import config
from nbcompile.capture import recipe as recipes
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.capture.recipe import Constant, GraphOutput, Mutation, Recipe
from nbcompile.capture.source import AttrSource, ItemSource, KeySource, LocalSource
from nbcompile.tracing import breaks
from nbcompile.tracing.effects.shared_values import SharedValues
from nbcompile.tracing.protocol import Change, GlobalChange, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.iterators import SequenceIteratorVariable
from nbcompile.tracing.variables.lookup import MISSING, class_lookup, instance_dict, is_data_descriptor
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import ListVariable
from nbcompile.tracing.variables.sets import SetVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def _is_same_tensor(one: object, other: object) -> bool:
    return isinstance(one, torch.Tensor) and one is other


class Reconstruction:
    """Recipes under construction for one graph."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.outputs: list[torch.fx.Node] = []
        self.shared = SharedValues().shared
        self._first: dict[int, VariableTracker] = {}
        self.at_last: list[Callable[[], Mutation]] = []
        """Mutations that complete values; they run after all other side effects."""
        self.visible: set[int] | None = None
        """Ids of the trackers that the rest of the program can reach after a break. None: all of them."""
        self.named: set[int] | None = None
        """Ids of the trackers that names can reach: the iterator of a loop, which is only on the stack, is not one."""

    def recipe(self, tracker: VariableTracker) -> Recipe:
        """Recipe of one value."""
        return tracker.recipe(self)

    def shows(self, tracker: VariableTracker) -> bool:
        """True if code that runs after the graph may change a container."""
        known_elsewhere = tracker.source is not None and not isinstance(tracker.source, LocalSource)
        return self.visible is None or id(tracker) in self.visible or known_elsewhere

    def shows_class(self, tracker: VariableTracker) -> bool:
        """True if code that runs after the graph may read the class of an iterator.

        Guards of a resume function can only read iterators over tuples and ranges: loops continue with these.
        """
        return self.named is None or id(tracker) in self.named

    def graph_output(self, node: torch.fx.Node) -> Recipe:
        """The value of a node, as an output of the graph: one for all nodes whose value is the same tensor.

        In eager mode ``v.contiguous()`` may be ``v`` itself. As two outputs they would be two tensors after a compiler
        functionalizes in-place writes.
        """
        self.tracer.output.root.lift(node)  # rejects a node that was created inside of a body
        for at, output in enumerate(self.outputs):
            if output is node or _is_same_tensor(output.meta[EXAMPLE], node.meta[EXAMPLE]):
                return GraphOutput(at)
        self.outputs.append(node)
        return GraphOutput(len(self.outputs) - 1)

    def first_of(self, tracker: VariableTracker) -> VariableTracker:
        """The tracker whose recipe was requested first, of all trackers of one object."""
        return self._first.setdefault(id(tracker.identity()), tracker)

    def before_graph(self) -> tuple[Recipe, ...]:
        """Calls that run before the graph: draws of random numbers, and new parameters."""
        return tuple(each(self) for each in self.tracer.side_effects.before_graph)

    def attribute(self, base: Recipe, name: str) -> Recipe:
        """``base.name``."""
        return recipes.Attribute(base, name)

    def iterator(self, items: Sequence[VariableTracker], cls: type = tuple) -> Recipe:
        """An iterator over known items; the class is that of iterators over lists or over tuples."""
        values = tuple(map(self.recipe, items))
        # ``reversed(list)`` is an iterator of its own class; one over the reversed items has the same remaining items.
        kind: Literal["list", "tuple"] = "list" if cls in (type(iter([])), type(reversed([]))) else "tuple"
        if cls in (reversed, type(reversed([]))):
            return recipes.Call(Constant(reversed, "reversed"), (recipes.Build(kind, values[::-1]),))
        return recipes.Call(Constant(iter, "iter"), (recipes.Build(kind, values),))

    def bound_method(self, function: VariableTracker, owner: VariableTracker) -> Recipe:
        """``function`` bound to ``owner``."""
        return recipes.Call(Constant(types.MethodType, "MethodType"), (self.recipe(function), self.recipe(owner)))

    def globals_of(self, scope: dict[str, object]) -> Recipe:
        """A dict of globals, which the residual program stores."""
        return Constant(scope, "globals")

    def attributes(self, tracker: VariableTracker) -> tuple[Mutation, ...]:
        """Mutations that complete a new object: its items (of a subclass of list or dict), and the attributes stored
        on it.
        """
        stored = self.tracer.side_effects.stored_attributes(tracker)
        # The object is created already, so this is a reference to it: ``make`` is not called.
        target = self.shared(tracker, lambda: Constant(None))
        completing: list[Mutation] = []
        base = getattr(tracker, "base_items", None)
        if isinstance(base, DictVariable):
            pairs = tuple((self.recipe(key), self.recipe(value)) for key, value in base.as_inserted())
            completing.append(recipes.StoreItems(target, pairs, plain=base.cls))
            completing += base.moves(self, target)
        elif isinstance(tracker, DictVariable):
            completing += tracker.moves(self, target)
        elif isinstance(base, ListVariable):
            completing.append(recipes.AppendItems(target, tuple(map(self.recipe, base.items)), plain=base.cls))
        elif isinstance(base, SetVariable) and base.cls is set:
            items = tuple(map(self.recipe, base.to_build()))
            completing.append(recipes.ReplaceItems(target, "set", items, plain=set))
        # The class's own ``__setattr__`` was traced: its stores are replayed without a call of it.
        completing += [
            recipes.SetAttribute(target, name, self.recipe(value), plain=object)
            for name, value in stored.items()
            if value is not None
        ]
        return tuple(completing)

    # -- side effects --------------------------------------------------------------------

    def mutations(self) -> tuple[Mutation, ...]:
        """The recorded changes of outside objects, in order; then the mutations that must come after them."""
        replayed = self._replayed() if config.replay_side_effects else []
        return (*replayed, *(complete() for complete in self.at_last))

    def _replayed(self) -> list[Mutation]:
        replayed: list[Mutation] = []
        for change in self.tracer.side_effects.order:
            if isinstance(change, GlobalChange):
                replayed.append(self._global(change))
            else:
                replayed.extend(self._change(change))
        replayed.extend(self._moved_iterators())
        replayed.extend(recipes.Evaluate(self.recipe(call)) for call in self.tracer.side_effects.deferred)
        return replayed

    def _moved_iterators(self) -> Iterator[Mutation]:
        # Iterators advance last: the sources of values that they yielded are relative to the iterator's position.
        for change in self.tracer.side_effects.order:
            if isinstance(change, Change) and isinstance(change.tracker, SequenceIteratorVariable):
                step = recipes.Call(Constant(next, "next"), (self.recipe(change.tracker),))
                # One ``next`` for each item that the trace took, since an iterator's position cannot be set.
                yield from [recipes.Evaluate(step, change.stack)] * change.tracker.index
                if change.tracker.is_exhausted:
                    last_step = recipes.Call(step.function, (*step.arguments, Constant(None)))
                    yield recipes.Evaluate(last_step, change.stack)

    def _global(self, change: GlobalChange) -> Mutation:
        value = None if change.value is None else self.recipe(change.value)
        if change.owner is not None and value is not None:
            return recipes.SetAttribute(self.recipe(change.owner), change.name, value, stack=change.stack)
        own = change.scope is self.tracer.output.frame.globals
        return recipes.SetGlobal(change.name, value, None if own else self.globals_of(change.scope), change.stack)

    def _change(self, change: Change) -> list[Mutation]:
        tracker = change.tracker
        if isinstance(tracker, SequenceIteratorVariable):
            return []
        if isinstance(tracker, CellVariable):
            return self._cell(tracker, change) if tracker.cell is not None else []
        if tracker.source is None and not (isinstance(tracker, ObjectVariable) and not tracker.is_new()):
            return []  # the code that creates a new object completes it
        target = self.recipe(tracker)
        setting, deleting = (_class_in_c(tracker, name) for name in ("__setattr__", "__delattr__"))
        changed: list[Mutation] = []
        for name, value in change.attributes.items():
            # An attribute that was set and deleted in one call was never visible outside.
            if (value is None or name in change.moved) and self._was_there(tracker, name):
                changed.append(recipes.DeleteAttribute(target, name, deleting, change.stack))
            if value is not None:
                changed.append(recipes.SetAttribute(target, name, self.recipe(value), setting, change.stack))
        if change.items:
            changed += self._items(tracker, target, change)
        return changed

    def _was_there(self, tracker: VariableTracker, name: str) -> bool:
        """True if an attribute that is deleted at the end existed before the call; the answer is guarded."""
        if _hides_a_member(tracker, name):
            assert tracker.source is not None
            # ``hasattr`` would also find the class's member: the guard reads the instance's own dict.
            was_there = name in instance_dict(tracker.value)
            self.tracer.guard(AttrSource(tracker.source, "__dict__"), GuardKind.DICT_CONTAINS, (name, was_there))
            return was_there
        was_there = _is_there(tracker, name)
        self.tracer.guard(tracker.source, GuardKind.HASATTR, (name, was_there))
        return was_there

    def _cell(self, cell: CellVariable, change: Change) -> list[Mutation]:
        value = None if cell.content is None else self.recipe(cell.content)
        return [recipes.SetCell(self.recipe(cell), value, cell.name, change.stack)]

    def _items(self, tracker: VariableTracker, target: Recipe, change: Change) -> list[Mutation]:
        match tracker:
            case DictVariable():
                return [self._entries(tracker, target, change), *tracker.moves(self, target)]
            case SetVariable():
                plain, steps = plain_class(tracker.cls, set), tracker.steps(self.tracer)
                if steps is None:
                    items = tuple(map(self.recipe, tracker.to_build()))
                    return [recipes.ReplaceItems(target, "set", items, change.stack, plain)]
                return [
                    recipes.ChangeSet(target, method, tuple(map(self.recipe, items)), change.stack, plain)
                    for method, items in steps
                ]
            case ListVariable():
                return [self._list(tracker, target, change)]
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, tracker.describe(), name=tracker.type_name())

    def _list(self, tracker: ListVariable, target: Recipe, change: Change) -> Mutation:
        assert tracker.source is not None
        plain = plain_class(tracker.cls, list)
        before = len(self.tracer.real_value(tracker.source))  # type: ignore[arg-type]
        # All earlier items are still at their positions: an append keeps the list's identity and order, and is cheaper
        # than storing all items. An item is recognised by its source, not by its value.
        kept = [item.source == ItemSource(tracker.source, index) for index, item in enumerate(tracker.items[:before])]
        if len(kept) == before and all(kept):
            return recipes.AppendItems(target, tuple(map(self.recipe, tracker.items[before:])), change.stack, plain)
        kind = "deque" if isinstance(tracker, DequeVariable) else "list"
        return recipes.ReplaceItems(target, kind, tuple(map(self.recipe, tracker.items)), change.stack, plain)  # type: ignore[arg-type]

    def _entries(self, tracker: DictVariable, target: Recipe, change: Change) -> Mutation:
        plain = plain_class(tracker.cls, dict)
        # A dict keeps the order of its insertions. If no earlier key was deleted or moved, stores of the new values
        # give the same order; otherwise the dict is cleared and filled again. An OrderedDict is not: nothing guards in
        # which order the keys were inserted that it keeps.
        is_ordered = issubclass(tracker.cls, collections.OrderedDict)
        if not is_ordered and not self._keeps_keys(tracker, plain or tracker.cls):
            return recipes.ReplaceItems(target, "dict", tuple(tracker.entry_recipes(self)), change.stack, plain)
        removed = {hashed: key for hashed, key in tracker.removed.items() if key is not None}
        pairs = [
            (self.recipe(key), self.recipe(value))
            for hashed, (key, value) in tracker.insertions()
            if hashed in removed or not tracker.was_there(key, value)
        ]
        return recipes.StoreItems(target, tuple(pairs), change.stack, plain, tuple(map(self.recipe, removed.values())))

    def _keeps_keys(self, tracker: DictVariable, base: Any) -> bool:
        assert tracker.source is not None
        before = list(base.__iter__(self.tracer.real_value(tracker.source)))  # the class may have its own ``__iter__``
        keys = [key for key, _ in tracker.as_inserted()]
        return len(keys) >= len(before) and all(map(_is_key, keys, before))


def _is_key(tracker: VariableTracker, key: object) -> bool:
    """True if a dict's key, as traced, is the key that the dict had before."""
    # 1, 1.0 and True are equal keys, but the dict keeps the object that was stored first.
    if tracker.is_constant():
        known = tracker.constant()
        return known is key or (type(known) is type(key) and known == key)
    if isinstance(tracker, TensorVariable):
        return tracker.source is not None and isinstance(tracker.source, KeySource)
    return isinstance(tracker, ObjectVariable) and tracker.value is key


def _hides_a_member(tracker: VariableTracker, name: str) -> TypeGuard[ObjectVariable]:
    """True if the class has a member of that name, which a look-up finds after the object's attribute is deleted."""
    if not isinstance(tracker, ObjectVariable) or tracker.source is None or not hasattr(tracker.value, "__dict__"):
        return False
    found = class_lookup(tracker.cls, name)
    return found is not MISSING and not is_data_descriptor(found)


def _is_there(tracker: VariableTracker, name: str) -> bool:
    real = tracker.value if isinstance(tracker, ObjectVariable) else tracker.identity()
    # No ``__dict__`` contains the value of a slot.
    if isinstance(class_lookup(type(real), name), types.MemberDescriptorType):  # a slot, full or empty
        return hasattr(real, name)
    if isinstance(tracker, ObjectVariable) and name in instance_dict(real):
        return True
    try:
        return inspect.getattr_static(real, name, MISSING) is not MISSING and (
            not isinstance(real, type) or name in real.__dict__
        )
    except TypeError:  # the object has no ``__dict__``
        return True


def plain_class(cls: type, builtin: type) -> type | None:
    """The built-in class whose methods change an object of a user's subclass; None for the built-in itself."""
    kinds = (collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque, builtin)
    return None if cls in kinds else next(kind for kind in kinds if issubclass(cls, kind))


def _class_in_c(tracker: VariableTracker, method: str) -> type | None:
    """Built-in class whose method replays the change if the method of the value's class is user code."""
    if isinstance(tracker, (FunctionVariable, CellVariable)):
        return None
    cls = tracker.python_type()
    # The user's method was traced, and its effects are replayed: a call of it would repeat them.
    found = getattr(cls, method, getattr(object, method))
    if not isinstance(found, types.FunctionType) or found is getattr(torch.nn.Module, method):
        return None
    return next((each for each in (type, threading.local) if issubclass(cls, each)), object)
