"""Dicts: each entry has the tracker of its key and that of its value.

    d["lr"]      entries: {"lr": (ConstantVariable("lr"), ConstantVariable(0.1))}

Keys are found by :meth:`VariableTracker.hash_key`: constants by value, objects by
identity or by their own ``__hash__`` and ``__eq__``, which are traced. The guards on a dict from outside are those that
its uses need: a key that was read, a membership that was tested, all keys if it was iterated over.

In torch: torch/_dynamo/variables/dicts.py. Read next: sets.py
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Build, Call, Constant, Evaluate, Mutation, Recipe, StoreItems
from nbcompile.capture.source import ItemSource, Source, ValueSource
from nbcompile.tracing.polyfills.builtins import fromkeys
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable, iterator_over
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.set_tables import is_class_key

IN_ORDER = ("keys", "values", "items", "__iter__", "__reversed__", "copy", "popitem")
"""Methods of ``dict`` that iterate in insertion order, also for an OrderedDict, whose keys may have been moved."""
PAST_THE_ORDER = (
    "__setitem__", "__delitem__", "pop", "popitem", "clear", "update", "setdefault", "__init__", "__ior__",
)  # fmt: skip
"""Methods of ``dict`` that change the entries of an OrderedDict, but not its own list of the order of its keys."""
Entry = tuple[VariableTracker, VariableTracker]


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
        # Keyed by the keys' hashes in the program: 1, 1.0 and True are one key, objects hash by identity
        # or by their traced ``__hash__``. The tracker of the key is stored too: it is the object that was
        # stored first.
        self.entries: dict[Hashable, Entry] = {}
        for key, value in entries:
            hashed = key.hash_key(tracer)
            self.entries[hashed] = (self.entries[hashed][0] if hashed in self.entries else key, value)
        self.source = source
        self.cls = cls
        self.default = default
        self.changed = False
        self.inserted: dict[Hashable, None] = {}
        """Keys in insertion order, set when one is moved: ``dict.keys`` of an OrderedDict."""
        self.removed: dict[Hashable, VariableTracker | None] = {}
        """The keys that an OrderedDict had before its first change, by their hashes: the tracker of one that the traced
        code removed, even if it was inserted again, and None for the others.
        """

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

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        # The order of dict's own methods is known unless keys were moved, here or before the call.
        unknown = (*PAST_THE_ORDER, *(IN_ORDER if self.source is not None or self.inserted else ()))
        if cls is dict and issubclass(self.cls, collections.OrderedDict) and name in unknown:
            self.no_method(name)
        return super().builtin_method(tracer, cls, name, arguments, keywords)

    def _guard_keys(self, tracer: Tracer) -> None:
        # Guards are about the dict at the entry of the frame. If it was changed here, all keys are known already.
        if self.source is not None and not self.changed:
            tracer.guard_keys(self)

    def mark_mutated(self, tracer: Tracer) -> None:
        self._guard_keys(tracer)
        if not self.changed and issubclass(self.cls, collections.OrderedDict):
            self.removed = dict.fromkeys(self.entries)
        self.changed = True
        super().mark_mutated(tracer)

    def _has(self, tracer: Tracer, key: VariableTracker, looked_up: Hashable) -> bool:
        # Three guards on a dict from outside, the weakest first:
        #     d["lr"]       DICT_CONTAINS of this key       other keys may come and go
        #     len(d)        DICT_LENGTH
        #     for k in d    all keys, in order
        found = looked_up in self.entries
        if self.source is not None and not self.changed:
            if key.is_constant():
                # A constant key has a guard of its own: another key in a dict of settings causes no recompilation.
                tracer.guard(self.source, GuardKind.DICT_CONTAINS, (key.constant(), found))
            elif is_class_key(looked_up):
                # So is a class: registries (of pytrees, say) have more keys in a process that imported more.
                tracer.guard(self.source, GuardKind.DICT_CONTAINS, (looked_up, found))
            else:
                self._guard_keys(tracer)
        return found

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self._has(tracer, item, item.hash_key(tracer))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.find(tracer, key, key.hash_key(tracer))

    def value_at(self, tracer: Tracer, hashed: Hashable) -> VariableTracker:
        """The value of an existing entry, by the hash of its key."""
        return self.find(tracer, self.entries[hashed][0], hashed)

    def find(self, tracer: Tracer, key: VariableTracker, hashed: Hashable) -> VariableTracker:
        """The value of a key whose hash was computed."""
        entry = self.entries.get(hashed)
        if entry is None:
            self._has(tracer, key, hashed)
            return self._missing(tracer, key)
        value = realise_unless_deferred(tracer, entry[1])
        # The realised tracker replaces the lazy one, so that the value is one object however often it is read.
        if value is not entry[1]:
            self.entries[hashed] = (entry[0], value)
        return value

    def _missing(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if self.default is not None and not (self.default.is_constant() and self.default.constant() is None):
            default = tracer.call(self.default, [])
            self.set_item(tracer, key, default)
            return default
        tracer.raise_exception(KeyError, key)

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        # Before the change: its previous contents are guarded first.
        self.mark_mutated(tracer)
        self._store(key.hash_key(tracer), key, value)

    def _store(self, hashed: Hashable, key: VariableTracker, value: VariableTracker) -> None:
        known = self.entries.get(hashed)
        self.entries[hashed] = (known[0] if known else key, value)

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        hashed = key.hash_key(tracer)
        if not self._has(tracer, key, hashed):
            tracer.raise_exception(KeyError, key)  # a default factory is for reads
        self.mark_mutated(tracer)
        self._drop(hashed)

    def _drop(self, key: Hashable) -> Entry:
        self.inserted.pop(key, None)
        if key in self.removed and self.removed[key] is None:
            self.removed[key] = self.entries[key][0]
        return self.entries.pop(key)

    def keys(self, tracer: Tracer) -> list[VariableTracker]:
        """All keys, in order; guarded."""
        self._guard_keys(tracer)
        return [realise(tracer, key) for key, _ in self.entries.values()]

    def values(self, tracer: Tracer) -> list[VariableTracker]:
        """All values, in order; the keys are guarded."""
        self._guard_keys(tracer)
        return [self.find(tracer, key, hashed) for hashed, (key, _) in list(self.entries.items())]

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return self.keys(tracer)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return iterator_over(self, self.keys(tracer), "keys", backwards=False)

    def backwards(self, tracer: Tracer) -> VariableTracker:
        """``reversed(d)``."""
        return iterator_over(self, self.keys(tracer), "keys", backwards=True)

    method___reversed__ = backwards  # for the built-in part of a subclass

    def length(self, tracer: Tracer) -> VariableTracker:
        self._guard_length(tracer)
        return ConstantVariable(len(self.entries))

    def _guard_length(self, tracer: Tracer) -> None:
        if self.source is not None and not self.changed:
            tracer.guard(self.source, GuardKind.DICT_LENGTH, len(self.entries))

    def truth(self, tracer: Tracer) -> bool:
        self._guard_length(tracer)
        return bool(self.entries)

    def method_get(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        hashed = key.hash_key(tracer)
        if self._has(tracer, key, hashed):
            return self.find(tracer, key, hashed)
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
        # A subclass returns a plain dict; only these two return one of their own class.
        cls = self.cls if issubclass(self.cls, (collections.OrderedDict, collections.defaultdict)) else dict
        copied = DictVariable(tracer, [], cls=cls, default=self.default)
        for hashed, (key, value) in self.hashed(tracer):
            copied._store(hashed, key, value)
        return copied

    def hashed(self, tracer: Tracer) -> list[tuple[Hashable, Entry]]:
        """All entries with the hashes of their keys, in order; guarded. CPython does not compute these hashes again."""
        entries = zip(self.keys(tracer), self.values(tracer), strict=True)
        return list(zip(list(self.entries), entries, strict=True))

    def fill(self, tracer: Tracer, other: VariableTracker) -> None:
        """Store the items of another mapping, or of an iterable of pairs."""
        entries = None if self.cls is collections.OrderedDict else hashed_entries(tracer, other)
        if entries is None:
            for key, value in pairs_of(tracer, other):
                self._store(key.hash_key(tracer), key, value)
        for hashed, (key, value) in entries or []:
            self._store(hashed, key, value)

    def method_pop(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        hashed = key.hash_key(tracer)
        if not self._has(tracer, key, hashed):
            if default is not None:
                return default
            tracer.raise_exception(KeyError, key)
        value = self.find(tracer, key, hashed)
        self.mark_mutated(tracer)
        self._drop(hashed)
        return value

    def method_popitem(self, tracer: Tracer, last: VariableTracker | None = None) -> VariableTracker:
        if not self.entries:
            self._guard_keys(tracer)  # the dict of another call may have entries
            is_ordered = issubclass(self.cls, collections.OrderedDict)
            tracer.raise_exception(KeyError, "dictionary is empty" if is_ordered else "popitem(): dictionary is empty")
        self.mark_mutated(tracer)
        position = -1 if last is None or last.truth(tracer) else 0
        found = list(self.entries)[position]
        key, value = self._drop(found)
        return TupleVariable([realise(tracer, key), realise(tracer, value)])

    def method_setdefault(
        self, tracer: Tracer, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        hashed = key.hash_key(tracer)
        if not self._has(tracer, key, hashed):
            self.mark_mutated(tracer)
            self._store(hashed, key, default if default is not None else ConstantVariable(None))
        return self.find(tracer, key, hashed)

    def method_update(self, tracer: Tracer, other: VariableTracker | None = None, /, **named: VariableTracker) -> None:
        self.mark_mutated(tracer)
        if other is not None:
            self.fill(tracer, other)
        for name, value in named.items():
            self.set_item(tracer, ConstantVariable(name), value)

    def method___init__(
        self, tracer: Tracer, other: VariableTracker | None = None, /, **named: VariableTracker
    ) -> None:
        if self.cls is collections.defaultdict:
            self.no_method("__init__")  # it replaces the default_factory
        if other is not None or named:
            self.method_update(tracer, other, **named)

    def method_clear(self, tracer: Tracer) -> None:
        self.mark_mutated(tracer)
        for key in list(self.entries):
            self._drop(key)

    def method_move_to_end(self, tracer: Tracer, key: VariableTracker, last: VariableTracker | None = None) -> None:
        hashed = key.hash_key(tracer)
        if not self._has(tracer, key, hashed):
            self._missing(tracer, key)
        self.mark_mutated(tracer)
        self.inserted |= dict.fromkeys(self.entries)
        entry = self.entries.pop(hashed)
        if last is None or last.truth(tracer):
            self.entries[hashed] = entry
        else:
            self.entries = {hashed: entry, **self.entries}

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
        if issubclass(self.cls, collections.defaultdict):
            default = reconstruction.recipe(self.default) if self.default is not None else Constant(None)
            return Call(Constant(self.cls, self.cls.__name__), (default, recipe))
        return Call(Constant(self.cls, self.cls.__name__), (recipe,))

    def entry_recipes(self, reconstruction: Reconstructor) -> list[Recipe]:
        """Recipes of all keys and values in turn: key, value, key, value..."""
        return [reconstruction.recipe(part) for entry in self.as_inserted() for part in entry]

    def as_inserted(self) -> list[Entry]:
        """The entries in the order of ``dict``'s own methods, independent of moves."""
        return [entry for _, entry in self.insertions()]

    def was_there(self, key: VariableTracker, value: VariableTracker) -> bool:
        """True for a value that the dict had under its key before the call."""
        if value.source is None or self.source is None:
            return False
        at_key = key.is_constant() and value.source == ItemSource(self.source, key.constant())
        return at_key or isinstance(value.source, ValueSource)

    def insertions(self) -> list[tuple[Hashable, Entry]]:
        """The entries in insertion order, with the hashes of their keys; for keys from outside it may differ."""
        return [(hashed, self.entries[hashed]) for hashed in self.inserted | dict.fromkeys(self.entries)]

    def moves(self, reconstruction: Reconstructor, target: Recipe) -> tuple[Mutation, ...]:
        """Calls that move the keys of an OrderedDict to their current positions."""
        move = Constant(collections.OrderedDict.move_to_end, "move_to_end")
        keys = [key for key, _ in self.entries.values()] if self.inserted else []
        return tuple(Evaluate(Call(move, (target, reconstruction.recipe(key)))) for key in keys)


def hashed_entries(tracer: Tracer, value: VariableTracker) -> list[tuple[Hashable, Entry]] | None:
    """The entries of a dict of Python's own class, with its stored hashes; None for any other value."""
    return value.hashed(tracer) if type(value) is DictVariable and value.cls is dict else None


def pairs_of(tracer: Tracer, value: VariableTracker) -> list[Entry]:
    """The entries of a mapping, or of an iterable of pairs, as ``dict.update`` takes them."""
    part = getattr(value, "base_items", None)
    # The entries of a subclass without an ``__iter__`` are copied, without its ``keys`` and ``__getitem__``.
    if isinstance(part, DictVariable) and class_lookup(value.python_type(), "__iter__") is dict.__iter__:
        value = part
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
