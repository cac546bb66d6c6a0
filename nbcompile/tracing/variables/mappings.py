"""Dicts and sets, known entry by entry.

Keys are found by :meth:`VariableTracker.hash_key`: constants by value, objects by
identity. A dict from outside is guarded on what the program asked of it: a key
that was read, a membership that was tested, all keys once it was iterated.

In torch: torch/_dynamo/variables/dicts.py. Read next: functions.py
"""

from __future__ import annotations

import collections
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Build, Call, Constant, Mutation, Recipe, StoreItems
from nbcompile.capture.source import Source
from nbcompile.tracing.polyfills.builtins import fromkeys
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.iterators import WatchingIteratorVariable
from nbcompile.tracing.variables.keys import TracedKey
from nbcompile.tracing.variables.sequences import TupleVariable

Entry = tuple[VariableTracker, VariableTracker]


def _over(
    owner: DictVariable, items: Sequence[VariableTracker], which: str, backwards: bool
) -> WatchingIteratorVariable:
    """An iterator over the keys, values or items of a dict, of the class that Python has for it."""
    step = reversed if backwards else iter
    cls = type(step(getattr(owner.cls(), which)()))
    ordered = TupleVariable(items[::-1] if backwards else items)
    keys = [key for key, _ in owner.entries.values()]
    keys = keys[::-1] if backwards else keys

    def read(tracer: Tracer, index: int) -> VariableTracker:
        # A value may be another one by now; the keys are those of before, or it would not go on.
        value = owner.get_item(tracer, keys[index])
        return value if which == "values" else TupleVariable([realise(tracer, keys[index]), value])

    if owner.cls is collections.OrderedDict:  # it sees a key that was moved, too
        message = "OrderedDict mutated during iteration"
        iterator = WatchingIteratorVariable(owner, ordered, cls, lambda: tuple(owner.entries), message)
        iterator.gives_up = True
    else:
        message = "dictionary changed size during iteration"
        iterator = WatchingIteratorVariable(owner, ordered, cls, lambda: len(owner.entries), message)
        iterator.watching(lambda: tuple(owner.entries))
    iterator.read = None if which == "keys" else read
    return iterator


class DictVariable(ContainerVariable):
    """A dict, OrderedDict or defaultdict."""

    cls: type = dict

    def __init__(
        self,
        tracer: Tracer,
        entries: Iterable[Entry],
        source: Source | None = None,
        cls: type = dict,
        default: VariableTracker | None = None,
    ) -> None:
        # Keyed by the keys' hashes as the program would compute them: 1, 1.0 and True are one key, objects hash by
        # identity or by their traced ``__hash__``. The tracker of the key is kept too: it is the object that was stored
        # first.
        self.entries: dict[Hashable, Entry] = {key.hash_key(tracer): (key, value) for key, value in entries}
        self.source = source
        self.cls = cls
        self.default = default
        self.changed = False

    def describe(self) -> str:
        return f"ConstDictVariable(length={len(self.entries)})"

    def proxy(self) -> object:
        return {key.constant(): value.proxy() for key, value in self.entries.values()}

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.default or ConstantVariable(None)
        stored = tracer.side_effects.attribute(self, name)
        return super().get_attribute(tracer, name) if stored is None else stored

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if self.cls is collections.OrderedDict and self.source is None and not hasattr(self.cls, name):
            tracer.side_effects.store_attribute(tracer, self, name, value)  # a module's state has _metadata
        else:
            super().set_attribute(tracer, name, value)

    def _know_all(self, tracer: Tracer) -> None:
        # Guards are about the dict as it was when the frame began. Once it is changed here, all keys are known already.
        if self.source is not None and not self.changed:
            tracer.guard_keys(self)

    def changes(self, tracer: Tracer) -> None:
        self._know_all(tracer)
        self.changed = True
        super().changes(tracer)

    def _has(self, tracer: Tracer, key: VariableTracker) -> bool:
        # Three guards on a dict from outside, from the weakest on:
        #     d["lr"]       DICT_CONTAINS of this key       other keys may come and go
        #     len(d)        DICT_LENGTH
        #     for k in d    all keys, in order
        found = key.hash_key(tracer) in self.entries
        if self.source is not None and not self.changed:
            if key.is_constant():
                # A constant key is guarded alone: a dict of settings may get other keys without a recompilation.
                tracer.guard(self.source, GuardKind.DICT_CONTAINS, (key.constant(), found))
            else:
                self._know_all(tracer)
        return found

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self._has(tracer, item)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if key.hash_key(tracer) not in self.entries:
            self._has(tracer, key)
            return self._missing(tracer, key)
        known, value = self.entries[key.hash_key(tracer)]
        value = realise(tracer, value)
        # The realised tracker replaces the lazy one, so that the value is one object however often it is read.
        self.entries[key.hash_key(tracer)] = (known, value)
        return value

    def _missing(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if self.default is not None and not (self.default.is_constant() and self.default.constant() is None):
            default = tracer.call(self.default, [])
            self.set_item(tracer, key, default)
            return default
        tracer.raise_exception(KeyError, key)

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        # Before the change: what the dict held until now is guarded first.
        self.changes(tracer)
        known = self.entries.get(key.hash_key(tracer))
        self.entries[key.hash_key(tracer)] = (known[0] if known else key, value)

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        if not self._has(tracer, key):
            tracer.raise_exception(KeyError, key)  # a default factory is for reads
        self.changes(tracer)
        del self.entries[key.hash_key(tracer)]

    def keys(self, tracer: Tracer) -> list[VariableTracker]:
        """All keys, in order; guarded."""
        self._know_all(tracer)
        return [realise(tracer, key) for key, _ in self.entries.values()]

    def values(self, tracer: Tracer) -> list[VariableTracker]:
        """All values, in order; the keys are guarded."""
        self._know_all(tracer)
        return [self.get_item(tracer, key) for key, _ in list(self.entries.values())]

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return self.keys(tracer)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return _over(self, self.keys(tracer), "keys", backwards=False)

    def backwards(self, tracer: Tracer) -> VariableTracker:
        """``reversed(d)``."""
        return _over(self, self.keys(tracer), "keys", backwards=True)

    def length(self, tracer: Tracer) -> VariableTracker:
        self._know_length(tracer)
        return ConstantVariable(len(self.entries))

    def _know_length(self, tracer: Tracer) -> None:
        if self.source is not None and not self.changed:
            tracer.guard(self.source, GuardKind.DICT_LENGTH, len(self.entries))

    def truth(self, tracer: Tracer) -> bool:
        self._know_length(tracer)
        return bool(self.entries)

    def method_get(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        if self._has(tracer, key):
            return self.get_item(tracer, key)
        return default if default is not None else ConstantVariable(None)

    def method_keys(self, tracer: Tracer) -> VariableTracker:
        return DictViewVariable(self, "keys")

    def method_values(self, tracer: Tracer) -> VariableTracker:
        return DictViewVariable(self, "values")

    def method_items(self, tracer: Tracer) -> VariableTracker:
        return DictViewVariable(self, "items")

    def method_fromkeys(
        self, tracer: Tracer, keys: VariableTracker, value: VariableTracker | None = None
    ) -> VariableTracker:
        return tracer.call_python(fromkeys, ClassVariable(self.cls), keys, value or ConstantVariable(None))

    def method_copy(self, tracer: Tracer) -> VariableTracker:
        return DictVariable(
            tracer, zip(self.keys(tracer), self.values(tracer), strict=True), cls=self.cls, default=self.default
        )

    def method_pop(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        if not self._has(tracer, key):
            if default is not None:
                return default
            tracer.raise_exception(KeyError, key)
        value = self.get_item(tracer, key)
        self.changes(tracer)
        del self.entries[key.hash_key(tracer)]
        return value

    def method_popitem(self, tracer: Tracer, last: VariableTracker | None = None) -> VariableTracker:
        if not self.entries:
            self._know_all(tracer)  # the dict of another call may have entries
            is_ordered = issubclass(self.cls, collections.OrderedDict)
            tracer.raise_exception(KeyError, "dictionary is empty" if is_ordered else "popitem(): dictionary is empty")
        self.changes(tracer)
        position = -1 if last is None or last.truth(tracer) else 0
        found = list(self.entries)[position]
        key, value = self.entries.pop(found)
        return TupleVariable([realise(tracer, key), realise(tracer, value)])

    def method_setdefault(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        if not self._has(tracer, key):
            self.set_item(tracer, key, default if default is not None else ConstantVariable(None))
        return self.get_item(tracer, key)

    def method_update(self, tracer: Tracer, other: VariableTracker | None = None, **named: VariableTracker) -> None:
        self.changes(tracer)
        for key, value in pairs_of(tracer, other) if other is not None else []:
            self.set_item(tracer, key, value)
        for name, value in named.items():
            self.set_item(tracer, ConstantVariable(name), value)

    def method___init__(self, tracer: Tracer, other: VariableTracker | None = None, **named: VariableTracker) -> None:
        if other is not None or named:
            self.method_update(tracer, other, **named)

    def method_clear(self, tracer: Tracer) -> None:
        self.changes(tracer)
        self.entries.clear()

    def method_move_to_end(self, tracer: Tracer, key: VariableTracker, last: VariableTracker | None = None) -> None:
        if not self._has(tracer, key):
            self._missing(tracer, key)
        self.changes(tracer)
        entry = self.entries.pop(key.hash_key(tracer))
        if last is None or last.truth(tracer):
            self.entries[key.hash_key(tracer)] = entry
        else:
            self.entries = {key.hash_key(tracer): entry, **self.entries}

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        # Empty, then filled: a dict may contain itself.
        empty = (lambda: Build("dict", ()), lambda: self._entries_filled(reconstruction)) if self.cls is dict else None
        fill = (lambda: reconstruction.attributes(self)) if self.cls is collections.OrderedDict else None
        return reconstruction.shared(self, lambda: self._build(reconstruction), fill, empty)

    def _entries_filled(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        pairs = [(reconstruction.recipe(key), reconstruction.recipe(value)) for key, value in self.entries.values()]
        return (StoreItems(self.recipe(reconstruction), tuple(pairs)),)

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        recipe = Build("dict", tuple(self.entry_recipes(reconstruction)))
        if self.cls is dict:
            return recipe
        if self.cls is collections.defaultdict:
            default = reconstruction.recipe(self.default) if self.default is not None else Constant(None)
            return Call(Constant(self.cls, "defaultdict"), (default, recipe))
        return Call(Constant(self.cls, self.cls.__name__), (recipe,))

    def entry_recipes(self, reconstruction: Reconstructor) -> list[Recipe]:
        """Key, value, key, value..."""
        return [reconstruction.recipe(part) for entry in self.entries.values() for part in entry]


class DictViewVariable(ContainerVariable):
    """``d.keys()``, ``d.values()`` or ``d.items()``: a window on the dict."""

    def __init__(self, owner: DictVariable, which: str) -> None:
        self.owner = owner
        self.which = which
        self.cls = type(getattr(owner.cls(), which)())

    def describe(self) -> str:
        return f"Dict{self.which.capitalize()}Variable()"

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        if self.which == "keys":
            return self.owner.keys(tracer)
        if self.which == "values":
            return self.owner.values(tracer)
        return [TupleVariable(pair) for pair in zip(self.owner.keys(tracer), self.owner.values(tracer), strict=True)]

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return _over(self.owner, self.unpack(tracer), self.which, backwards=False)

    def backwards(self, tracer: Tracer) -> VariableTracker:
        """``reversed(d.keys())``."""
        return _over(self.owner, self.unpack(tracer), self.which, backwards=True)

    def length(self, tracer: Tracer) -> VariableTracker:
        return self.owner.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.owner.truth(tracer)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if self.which == "keys":
            return self.owner.contains(tracer, item)
        # As items of a container: a value that is the same object is equal, even a NaN.
        return any(tracer.equal(TupleVariable([value]), TupleVariable([item])) for value in self.unpack(tracer))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Call(reconstruction.attribute(reconstruction.recipe(self.owner), self.which))


HASHED_AS_THEY_ARE = (TracedKey, int, float, complex, str, bytes)
"""Keys with the hash of the value itself, though its tracker may be no constant: a number that was a symbol."""


class SetVariable(ContainerVariable):
    """A set or frozenset."""

    cls: type = set

    def __init__(
        self, tracer: Tracer, items: Iterable[VariableTracker], source: Source | None = None, cls: type = set
    ) -> None:
        # Of equal items the first stays, as in Python.
        self.members: dict[Hashable, VariableTracker] = {}
        for item in items:
            self.members.setdefault(item.hash_key(tracer), item)
        self.source = source
        self.cls = cls

    def describe(self) -> str:
        return f"SetVariable(length={len(self.members)})"

    def is_constant(self) -> bool:
        return self.cls is frozenset and all(item.is_constant() for item in self.members.values())

    def constant(self) -> object:
        return frozenset(item.constant() for item in self.members.values())

    def hash_key(self, tracer: Tracer) -> Hashable:
        return frozenset(self.members) if self.cls is frozenset else super().hash_key(tracer)

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        # Python's own order, where it can be known: that of the set of the real values.
        items = list(self.members.values())
        # The order of a set depends on hashes, those of strings on the process (PYTHONHASHSEED), those of objects on
        # addresses.
        if len(items) > 1:
            tracer.depend_on_process("the order of a set")
        if all(item.is_constant() or isinstance(key, HASHED_AS_THEY_ARE) for key, item in self.members.items()):
            # A set of the same keys, built in the same order: CPython's own iteration order comes with it.
            return [self.members[key] for key in set(self.members)]
        return items

    def iterate(self, tracer: Tracer) -> VariableTracker:
        items, cls = TupleVariable(self.unpack(tracer)), type(iter(self.cls()))
        message = "Set changed size during iteration"
        iterator = WatchingIteratorVariable(self, items, cls, lambda: len(self.members), message)
        return iterator.watching(lambda: frozenset(self.members))

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return _sought(tracer, item) in self.members

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.members))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.members)

    def method___init__(self, tracer: Tracer, items: VariableTracker | None = None) -> None:
        # A frozenset was filled when it was made.
        if not issubclass(self.cls, set):
            return  # that of every object
        if self.members:
            self.method_clear(tracer)
        if items is not None:
            self.method_update(tracer, items)

    def method_add(self, tracer: Tracer, item: VariableTracker) -> None:
        self.changes(tracer)
        self.members.setdefault(item.hash_key(tracer), item)

    def method_discard(self, tracer: Tracer, item: VariableTracker) -> None:
        self.changes(tracer)
        self.members.pop(_sought(tracer, item), None)

    def method_remove(self, tracer: Tracer, item: VariableTracker) -> None:
        if _sought(tracer, item) not in self.members:
            tracer.raise_exception(KeyError, item)
        self.method_discard(tracer, item)

    def method_pop(self, tracer: Tracer) -> VariableTracker:
        if not self.members:
            tracer.raise_exception(KeyError, "pop from an empty set")
        item = self.unpack(tracer)[0]
        self.method_discard(tracer, item)
        return item

    def method_clear(self, tracer: Tracer) -> None:
        self.changes(tracer)
        self.members.clear()

    def method_copy(self, tracer: Tracer) -> VariableTracker:
        # Of a frozenset Python gives the object itself.
        return self if self.cls is frozenset else self.like(tracer, self.members.values())

    def like(self, tracer: Tracer, items: Iterable[VariableTracker]) -> SetVariable:
        """A new set as this one's methods in C make it: never one of a subclass."""
        return SetVariable(tracer, items, cls=set if issubclass(self.cls, set) else frozenset)

    def method_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self.changes(tracer)
        for other in others:
            for item in items_for_set(tracer, other):
                self.members.setdefault(item.hash_key(tracer), item)

    def combine(self, tracer: Tracer, operation: str, others: Sequence[VariableTracker]) -> SetVariable:
        """``union``, ``intersection``, ``difference`` or ``symmetric_difference``."""
        mine = dict(self.members)
        for other in others:
            theirs = {item.hash_key(tracer): item for item in items_for_set(tracer, other)}
            match operation:
                case "union":
                    mine = {**mine, **_without(theirs, mine)}
                case "intersection":
                    # CPython iterates over the smaller set, and over any other iterable: of equal items it keeps those.
                    iterates_mine = isinstance(built_in_set(other), SetVariable) and len(theirs) > len(mine)
                    iterated, asked = (mine, theirs) if iterates_mine else (theirs, mine)
                    mine = {key: item for key, item in iterated.items() if key in asked}
                case "difference":
                    mine = _without(mine, theirs)
                case _:
                    mine = {**_without(theirs, mine), **_without(mine, theirs)}
        return self.like(tracer, mine.values())

    def method_union(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "union", others)

    def method_intersection(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "intersection", others)

    def method_difference(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "difference", others)

    def method_symmetric_difference(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "symmetric_difference", [other])

    def _become(self, tracer: Tracer, result: SetVariable) -> None:
        self.changes(tracer)
        self.members = result.members

    def method_difference_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self._become(tracer, self.combine(tracer, "difference", others))

    def method_intersection_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self._become(tracer, self.combine(tracer, "intersection", others))

    def method_symmetric_difference_update(self, tracer: Tracer, other: VariableTracker) -> None:
        self.changes(tracer)
        for item in SetVariable(tracer, items_for_set(tracer, other)).members.values():
            key = item.hash_key(tracer)
            if self.members.pop(key, None) is None:
                self.members[key] = item

    def method_issubset(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        theirs = {item.hash_key(tracer) for item in items_for_set(tracer, other)}
        return ConstantVariable(self.members.keys() <= theirs)

    def method_issuperset(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.members.keys() >= {item.hash_key(tracer) for item in items_for_set(tracer, other)})

    def method___reduce_ex__(self, tracer: Tracer, protocol: VariableTracker) -> VariableTracker:
        """Arguments by which ``copy.deepcopy`` makes it again."""
        return TupleVariable([tracer.wrap(self.cls, None), TupleVariable([tracer.list_of(self.unpack(tracer))])])

    def method_isdisjoint(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        # Alone of all these it asks for an iterator of a set of a subclass.
        return ConstantVariable(self.members.keys().isdisjoint(item.hash_key(tracer) for item in other.unpack(tracer)))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return reconstruction.shared(self, lambda: self._build(reconstruction))

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        items = tuple(reconstruction.recipe(item) for item in self.members.values())
        if self.cls is set and items:
            return Build("set", items)
        return Call(Constant(self.cls, self.cls.__name__), (Build("list", items),))


def built_in_set(value: VariableTracker) -> VariableTracker:
    """The items of an object of a subclass of set; any other value as it is."""
    part = getattr(value, "base_items", None)
    return part if isinstance(part, SetVariable) else value


def items_for_set(tracer: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The items that a set takes from a value: from another set directly, whatever ``__iter__`` its class has."""
    return built_in_set(value).unpack(tracer)


def _sought(tracer: Tracer, item: VariableTracker) -> Hashable:
    """The key that a set looks an item up by: that of a frozenset for a set, which has no hash of its own."""
    part = built_in_set(item)
    if isinstance(part, SetVariable) and issubclass(part.cls, set) and item.is_unhashable():
        return frozenset(part.members)
    return item.hash_key(tracer)


def pairs_of(tracer: Tracer, value: VariableTracker) -> list[Entry]:
    """The entries of a mapping, or of an iterable of pairs, as ``dict.update`` takes them."""
    if isinstance(value, DictVariable):
        return list(zip(value.keys(tracer), value.values(tracer), strict=True))
    if hasattr(value.python_type(), "keys"):
        # As ``dict.update`` does: an object with a method ``keys`` is a mapping, anything else an iterable of pairs.
        keys = tracer.call(value.get_attribute(tracer, "keys"), []).unpack(tracer)
        return [(key, value.get_item(tracer, key)) for key in keys]
    entries: list[Entry] = []
    for pair in value.unpack(tracer):
        entries.append(_pair(tracer, realise(tracer, pair), f"dictionary update sequence element #{len(entries)}"))
    return entries


def _pair(tracer: Tracer, pair: VariableTracker, name: str) -> Entry:
    # Python's own texts of these errors: a program may print them.
    if pair.is_constant() and not isinstance(pair.constant(), Iterable):
        tracer.raise_exception(TypeError, f"cannot convert {name} to a sequence")
    parts = pair.unpack(tracer)
    if len(parts) != 2:
        tracer.raise_exception(ValueError, f"{name} has length {len(parts)}; 2 is required")
    return parts[0], parts[1]


def _without(items: Mapping[Hashable, VariableTracker], others: Container[Hashable]) -> dict[Hashable, VariableTracker]:
    return {key: item for key, item in items.items() if key not in others}
