"""Lists, tuples and what is like them: known item by item.

    xs.append(y)      the ListVariable has one item more; nothing runs
    a, b = pair       the items of the TupleVariable

A list that came from outside is changed only here while tracing; side_effects
notes the change and the residual program replays it.

In torch: torch/_dynamo/variables/lists.py. Read next: mappings.py
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch

from nbcompile.capture.recipe import AppendItems, Build, Call, Constant, Evaluate, Mutation, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.tensor import SymbolicVariable

if TYPE_CHECKING:
    from nbcompile.tracing.reconstruction import Reconstruction


class BuiltinMethodVariable(VariableTracker):
    """A bound method of a container, before it is called."""

    def __init__(self, owner: VariableTracker, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type([].append)

    def describe(self) -> str:
        return f"GetAttrVariable({self.owner.describe()}, {self.name})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self.owner.call_method(tracer, self.name, arguments, keywords)

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        from_owner = reconstruction.recipe(self.owner)
        return reconstruction.attribute(from_owner, self.name)


OPERATOR_METHODS: dict[str, Callable[..., object]] = {
    f"__{name.strip('_')}__": getattr(operator, name)
    for name in (
        "add", "mul", "iadd", "imul", "and_", "or_", "xor", "sub", "iand", "ior", "ixor", "isub",
        "eq", "ne", "lt", "le", "gt", "ge",
    )
}  # fmt: skip
"""The operators that containers have, spelled as methods."""


class ContainerVariable(VariableTracker):
    """What lists, dicts and sets share: methods are found by name, ``method_append``."""

    cls: type
    mutable: ClassVar[bool] = True

    def python_type(self) -> type:
        return self.cls

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(self.cls, None)
        if hasattr(self, f"method_{name}") or name in OPERATOR_METHODS:
            return BuiltinMethodVariable(self, name)
        if not hasattr(self.cls, name):
            tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        method: Callable[..., VariableTracker | None] | None = getattr(self, f"method_{name}", None)
        if method is None and name in OPERATOR_METHODS and hasattr(self.cls, name):
            return tracer.call(tracer.wrap(OPERATOR_METHODS[name], None), [self, *arguments])
        if method is None:
            return tracer.call(self.get_attribute(tracer, name), arguments, keywords)
        result = method(
            tracer,
            *(realise(tracer, each) for each in arguments),
            **{k: realise(tracer, v) for k, v in keywords.items()},
        )
        return ConstantVariable(None) if result is None else result

    def changes(self, tracer: Tracer) -> None:
        """Note that the value is about to change."""
        tracer.side_effects.changes(tracer, self)

    # The operators, spelled as methods.
    def method___getitem__(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.get_item(tracer, key)

    def method___setitem__(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.set_item(tracer, key, value)

    def method___delitem__(self, tracer: Tracer, key: VariableTracker) -> None:
        self.delete_item(tracer, key)

    def method___contains__(self, tracer: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.contains(tracer, item))

    def method___len__(self, tracer: Tracer) -> VariableTracker:
        return self.length(tracer)

    def method___iter__(self, tracer: Tracer) -> VariableTracker:
        return self.iterate(tracer)


class SequenceVariable(ContainerVariable):
    """A list, tuple, deque, torch.Size or named tuple, by its items."""

    cls: type = list

    def __init__(self, items: Sequence[VariableTracker], source: Source | None = None, cls: type | None = None) -> None:
        self.items = list(items)
        self.source = source
        if cls is not None:
            self.cls = cls

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self.items)})"

    def is_constant(self) -> bool:
        return not self.mutable and all(item.is_constant() for item in self.items)

    def constant(self) -> object:
        values = [item.constant() for item in self.items]
        return self.cls(*values) if hasattr(self.cls, "_fields") else self.cls(values)

    def proxy(self) -> object:
        values = [item.proxy() for item in self.items]
        if hasattr(self.cls, "_fields"):
            return self.cls(*values)
        return tuple(values) if issubclass(self.cls, tuple) else values

    def at(self, tracer: Tracer, index: int) -> VariableTracker:
        """The item at a position, looked at from now on."""
        self.items[index] = realise(tracer, self.items[index])
        return self.items[index]

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return [self.at(tracer, index) for index in range(len(self.items))]

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.items))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.items)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return SequenceIteratorVariable(self)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if isinstance(key, SliceVariable):
            return self.like(self.items[key.value(tracer)])
        index = index_of(tracer, key)
        if isinstance(index, slice):
            return self.like(self.items[index])
        if not -len(self.items) <= index < len(self.items):
            tracer.raise_exception(IndexError, f"{self.cls.__name__} index out of range")
        return self.at(tracer, index)

    def like(self, items: Sequence[VariableTracker]) -> SequenceVariable:
        """A new sequence of the same kind; a slice of a named tuple is a tuple."""
        if issubclass(self.cls, tuple):
            return TupleVariable(items, cls=self.cls if self.cls is torch.Size else tuple)
        return ListVariable(items)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return any(each is item or tracer.equal(each, item) for each in self.unpack(tracer))

    def method_index(self, tracer: Tracer, item: VariableTracker, *bounds: VariableTracker) -> VariableTracker:
        low, high, _ = (
            slice(*(index_of(tracer, each) for each in (*bounds, ConstantVariable(None))[:2])).indices(len(self.items))
            if len(bounds) == 2
            else (slice(index_of(tracer, bounds[0]), None) if bounds else slice(None)).indices(len(self.items))
        )
        for index in range(low, high):
            if tracer.equal(self.at(tracer, index), item):
                return ConstantVariable(index)
        if issubclass(self.cls, tuple):
            tracer.raise_exception(ValueError, "tuple.index(x): x not in tuple")
        shown = repr(item.constant()) if item.is_constant() else item.describe()
        tracer.raise_exception(ValueError, f"{shown} is not in {self.cls.__name__}")

    def method_count(self, tracer: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(sum(tracer.equal(each, item) for each in self.unpack(tracer)))


class ListVariable(SequenceVariable):
    """A list (or deque), new or from outside."""

    cls: type = list

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.changes(tracer)
        index = key.value(tracer) if isinstance(key, SliceVariable) else index_of(tracer, key)
        if isinstance(index, slice):
            self.items[index] = value.unpack(tracer)
            return
        if not -len(self.items) <= index < len(self.items):
            tracer.raise_exception(IndexError, "list assignment index out of range")
        self.items[index] = value

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        self.changes(tracer)
        index = key.value(tracer) if isinstance(key, SliceVariable) else index_of(tracer, key)
        try:
            del self.items[index]
        except IndexError:
            tracer.raise_exception(IndexError, "list assignment index out of range")

    def method_append(self, tracer: Tracer, item: VariableTracker) -> None:
        self.changes(tracer)
        self.items.append(item)
        self._forget_oldest(tracer, -1)

    def method_appendleft(self, tracer: Tracer, item: VariableTracker) -> None:
        self.changes(tracer)
        self.items.insert(0, item)

    def _forget_oldest(self, tracer: Tracer, side: int) -> None:
        limit = getattr(self, "maxlen", None)
        if limit is not None and len(self.items) > limit:
            del self.items[0 if side == -1 else -1]

    def method_extend(self, tracer: Tracer, items: VariableTracker) -> None:
        self.changes(tracer)
        self.items.extend(items.unpack(tracer))

    def method_insert(self, tracer: Tracer, index: VariableTracker, item: VariableTracker) -> None:
        self.changes(tracer)
        position = index_of(tracer, index)
        assert isinstance(position, int)
        self.items.insert(position, item)

    def method_pop(self, tracer: Tracer, index: VariableTracker | None = None) -> VariableTracker:
        position = -1 if index is None else index_of(tracer, index)
        assert isinstance(position, int)
        if not self.items:
            tracer.raise_exception(
                IndexError, f"pop from empty {self.cls.__name__}" if self.cls is list else "pop from an empty deque"
            )
        if not -len(self.items) <= position < len(self.items):
            tracer.raise_exception(IndexError, "pop index out of range")
        self.changes(tracer)
        return realise(tracer, self.items.pop(position))

    def method_popleft(self, tracer: Tracer) -> VariableTracker:
        return self.method_pop(tracer, ConstantVariable(0))

    def method_remove(self, tracer: Tracer, item: VariableTracker) -> None:
        for index, each in enumerate(self.unpack(tracer)):
            if each is item or tracer.equal(each, item):
                self.changes(tracer)
                del self.items[index]
                return
        tracer.raise_exception(ValueError, "list.remove(x): x not in list")

    def method___init__(self, tracer: Tracer, items: VariableTracker | None = None) -> None:
        if items is not None:
            self.method_extend(tracer, items)

    def method_clear(self, tracer: Tracer) -> None:
        self.changes(tracer)
        self.items.clear()

    def method_reverse(self, tracer: Tracer) -> None:
        self.changes(tracer)
        self.items.reverse()

    def method_copy(self, tracer: Tracer) -> VariableTracker:
        return self.like(self.items)

    def method_sort(
        self, tracer: Tracer, key: VariableTracker | None = None, reverse: VariableTracker | None = None
    ) -> None:
        ordered = sort_items(tracer, self.unpack(tracer), key, reverse)
        self.changes(tracer)
        self.items[:] = ordered

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        empty = (lambda: Build("list", ()), lambda: self._items_filled(reconstruction)) if self.cls is list else None
        return reconstruction.shared(self, lambda: self._build(reconstruction), empty=empty)

    def _items_filled(self, reconstruction: Reconstruction) -> tuple[Mutation, ...]:
        return (AppendItems(self.recipe(reconstruction), tuple(map(reconstruction.recipe, self.items))),)

    def _build(self, reconstruction: Reconstruction) -> Recipe:
        made = Build("list", tuple(reconstruction.recipe(item) for item in self.items))
        if self.cls is list:
            return made
        limit = getattr(self, "maxlen", None)
        return Call(Constant(self.cls, self.cls.__name__), (made,) if limit is None else (made, Constant(limit)))


class DequeVariable(ListVariable):
    """A ``collections.deque``."""

    cls: type = collections.deque

    def __init__(
        self, items: Sequence[VariableTracker], source: Source | None = None, maxlen: int | None = None
    ) -> None:
        super().__init__(items if maxlen is None else items[max(0, len(items) - maxlen) :], source)
        self.maxlen = maxlen

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return ConstantVariable(self.maxlen) if name == "maxlen" else super().get_attribute(tracer, name)

    def like(self, items: Sequence[VariableTracker]) -> SequenceVariable:
        return DequeVariable(items, maxlen=self.maxlen)

    def method_extend(self, tracer: Tracer, items: VariableTracker) -> None:
        for item in items.unpack(tracer):
            self.method_append(tracer, item)

    def method_appendleft(self, tracer: Tracer, item: VariableTracker) -> None:
        super().method_appendleft(tracer, item)
        self._forget_oldest(tracer, 0)

    def method_extendleft(self, tracer: Tracer, items: VariableTracker) -> None:
        for item in items.unpack(tracer):
            self.method_appendleft(tracer, item)

    def method_rotate(self, tracer: Tracer, count: VariableTracker | None = None) -> None:
        turned = collections.deque(self.items)
        turned.rotate(1 if count is None else int(count.constant()))  # type: ignore[call-overload]
        self.changes(tracer)
        self.items[:] = turned


class TupleVariable(SequenceVariable):
    """A tuple, torch.Size, named tuple or result tuple of an operator."""

    cls: type = tuple
    mutable = False

    def hash_key(self) -> Hashable:
        return ("tuple", *(item.hash_key() for item in self.items)) if not self.is_constant() else self.constant()

    def fields(self) -> tuple[str, ...]:
        """The names of a named tuple's items."""
        named = getattr(self.cls, "_fields", None)
        return named if named is not None else getattr(self.cls, "__match_args__", ())

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if self.cls not in (tuple, torch.Size):
            if name in self.fields():
                return self.at(tracer, self.fields().index(name))
            found = getattr(self.cls, name, None)
            if found is not None and not hasattr(self, f"method_{name}"):
                return tracer.bind(self, self.cls, name)
        return super().get_attribute(tracer, name)

    def method_numel(self, tracer: Tracer) -> VariableTracker:
        result: VariableTracker = ConstantVariable(1)
        for item in self.unpack(tracer):
            result = tracer.binary("*", result, item)
        return result

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        made = Build("tuple", tuple(reconstruction.recipe(item) for item in self.items))
        if self.cls is tuple:
            return made
        if hasattr(self.cls, "_fields"):
            return Call(Constant(self.cls, self.cls.__name__), made.items)
        return Call(Constant(self.cls, self.cls.__name__), (made,))


class SliceVariable(VariableTracker):
    """A slice, by its three parts."""

    def __init__(self, parts: Sequence[VariableTracker], source: Source | None = None) -> None:
        none = ConstantVariable(None)
        self.start, self.stop, self.step = (none, parts[0], none) if len(parts) == 1 else (*parts, none)[:3]
        self.source = source

    def python_type(self) -> type:
        return slice

    def parts(self) -> tuple[VariableTracker, VariableTracker, VariableTracker]:
        """Start, stop, step."""
        return self.start, self.stop, self.step

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts())

    def constant(self) -> object:
        return slice(*(part.constant() for part in self.parts()))

    def proxy(self) -> object:
        return slice(*(part.proxy() for part in self.parts()))

    def value(self, tracer: Tracer) -> slice:
        """The slice itself, with symbolic parts specialised."""
        return slice(*(index_of(tracer, part) for part in self.parts()))

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            part: VariableTracker = getattr(self, name)
            return part
        if name == "indices":
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "indices":
            length = index_of(tracer, arguments[0])
            assert isinstance(length, int)
            return TupleVariable([ConstantVariable(each) for each in self.value(tracer).indices(length)])
        return super().call_method(tracer, name, arguments, keywords)

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return Call(Constant(slice, "slice"), tuple(reconstruction.recipe(part) for part in self.parts()))


class RangeVariable(VariableTracker):
    """A range; symbolic bounds are specialised, because loops over it are unrolled."""

    def __init__(self, value: range, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return range

    def is_constant(self) -> bool:
        return True

    def constant(self) -> object:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return ConstantVariable(getattr(self.value, name))
        return BuiltinMethodVariable(self, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__len__":
            return self.length(tracer)
        if name == "__iter__":
            return self.iterate(tracer)
        values = [each.constant() for each in arguments]
        return ConstantVariable(tracer.evaluate(getattr(self.value, name), values))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        index = key.value(tracer) if isinstance(key, SliceVariable) else index_of(tracer, key)
        item = tracer.evaluate(lambda: self.value[index], ())
        return RangeVariable(item) if isinstance(item, range) else ConstantVariable(item)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        value = item.specialise() if isinstance(item, SymbolicVariable) else item.constant()
        return value in self.value

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return SequenceIteratorVariable(TupleVariable(self.unpack(tracer)))

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        return [ConstantVariable(each) for each in self.value]

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.value))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.value)

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        return Constant(self.value, "range")


class IteratorVariable(VariableTracker):
    """What iterators share: they are their own iterator, and ``__next__`` is a method."""

    def python_type(self) -> type:
        return type(iter([]))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return self

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__next__", "__iter__"):
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__iter__":
            return self
        if name == "__next__":
            item = self.next_item(tracer)
            if item is None:
                tracer.raise_exception(StopIteration)
            return item
        return super().call_method(tracer, name, arguments, keywords)

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return reconstruction.shared(
            self,
            lambda: Call(
                Constant(iter, "iter"),
                (Build("tuple", tuple(map(reconstruction.recipe, self.rest(reconstruction.tracer)))),),
            ),
        )

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        """The items that are still to come."""
        return self.unpack(tracer)


class SequenceIteratorVariable(IteratorVariable):
    """An iterator over a sequence that follows its changes, as CPython's does."""

    def __init__(self, sequence: SequenceVariable, source: Source | None = None) -> None:
        self.sequence = sequence
        self.index = 0
        self.source = source

    def python_type(self) -> type:
        return type(iter(())) if issubclass(self.sequence.cls, tuple) else type(iter([]))

    def describe(self) -> str:
        return f"ListIteratorVariable(length={len(self.sequence.items)}, index={self.index})"

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        if self.index >= len(self.sequence.items):
            return None
        if self.source is not None:
            tracer.side_effects.changes(tracer, self)  # the real one moves, too
        self.index += 1
        return self.sequence.items[self.index - 1]  # looked at when it is used

    def rest(self, tracer: Tracer) -> list[VariableTracker]:
        return self.sequence.items[self.index :]

    def recipe(self, reconstruction: Reconstruction) -> Recipe:
        follows = isinstance(self.sequence, ListVariable) and reconstruction.shows(self.sequence)
        if self.source is not None or not follows:
            return super().recipe(reconstruction)
        # Whoever changes the list afterwards changes what is still to come.
        return reconstruction.shared(
            self,
            lambda: Call(Constant(iter, "iter"), (reconstruction.recipe(self.sequence),)),
            lambda: self._advance(reconstruction),
        )

    def _advance(self, reconstruction: Reconstruction) -> tuple[Mutation, ...]:
        move = reconstruction.attribute(reconstruction.recipe(self), "__setstate__")
        return (Evaluate(Call(move, (Constant(self.index, "index"),))),)


def index_of(tracer: Tracer, key: VariableTracker) -> Any:
    """A tracker used as an index, as a number (a symbolic one is specialised)."""
    if isinstance(key, SymbolicVariable):
        number = key.specialise()
        assert isinstance(number, int)
        return number
    if not key.is_constant() and issubclass(key.python_type(), int):  # an object of a subclass
        key = tracer.call_special(key, "__index__", [])
    if key.is_constant():
        value = cast(Any, key.constant())
        if value is None or isinstance(value, (int, slice)):
            return value
        if hasattr(value, "__index__"):
            return int(value.__index__())
        tracer.raise_exception(TypeError, f"list indices must be integers or slices, not {type(value).__name__}")
    raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, f"an index {key.describe()}", name="__getitem__", type="list")


def sort_items(
    tracer: Tracer, items: list[VariableTracker], key: VariableTracker | None, reverse: VariableTracker | None
) -> list[VariableTracker]:
    """Sort by constants (the items, or what ``key`` makes of them); stable, as Python's."""
    has_key = key is not None and not (key.is_constant() and key.constant() is None)
    keys = [tracer.call(key, [item]) for item in items] if key is not None and has_key else items
    values = [each.specialise() if isinstance(each, SymbolicVariable) else each for each in keys]
    plain: list[Any] = [
        each.constant() if isinstance(each, VariableTracker) and each.is_constant() else each for each in values
    ]
    if any(isinstance(each, VariableTracker) for each in plain):
        names = ", ".join(each.type_name() for each in plain if isinstance(each, VariableTracker))
        raise breaks.unsupported(breaks.SORT_KEYS, "sort of values that are no constants", types=names)
    backwards = reverse is not None and reverse.truth(tracer)
    order = tracer.evaluate(lambda: sorted(range(len(items)), key=plain.__getitem__, reverse=backwards), ())
    return [items[index] for index in order]  # type: ignore[attr-defined]
