"""Guards as expression trees over values of a call, which a page can evaluate without a kernel.

    L['x']  TENSOR_MATCH      type(L['x']) same 'Tensor' and L['x'].dtype same 'torch.float32' and ...
    L['f']  FUNCTION_MATCH    id(L['f'].__code__) same 'f (cell_1.py:3)'
    L['s']  SET_CONTAINS      whether "set.__contains__(L['s'], 3)" holds, a value of its own

    expressions.test(guard)  ->  the tree       expressions.take(call)  ->  {"L['x'].dtype": "torch.float32", ...}

A tree is true for the values of a call exactly if the guard holds for the call: that is tested. An object
that a guard compares by identity gets a name in place of its address.

In torch: nothing. Read next: nbcompile/recording/guard_explorer.py
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import itertools
import json
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

import torch
import torch.overrides

from nbcompile.capture.guard import GuardKind, ShapeGuards, TensorFacts, TensorMarks, tensor_property
from nbcompile.capture.source import Scope, Source, expression
from nbcompile.guarding.ambient import Ambient, readable_conditions, shape_names
from nbcompile.guarding.check import fetch
from nbcompile.guarding.guard_kinds import (
    ExpectedObject,
    Leaf,
    describe_value,
    evaluate_leaf,
    has_member,
    spelled_property,
)
from nbcompile.record import model, trees
from nbcompile.record.trees import Tree
from nbcompile.torch_internals import guards as torch_guards

Atom = int | float | bool | str | None
Reader = Callable[[Scope], Atom]
_ATOMS = (int, float, bool, str, type(None))
_PLAIN = (*_ATOMS, bytes, complex, type(...), torch.dtype, torch.device, torch.Size, range)
_LONGEST = 200
"""Maximal number of characters of a string that a page compares."""


class Unreadable(Exception):
    """A value that a page cannot represent; guards that depend on it do not hold."""


class ObjectNames:
    """Names of objects that guards compare by identity: ``Net``, ``Net #2``."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ExpectedObject, str]] = {}
        self._given: dict[str, int] = {}

    def give(self, value: object) -> str:
        """The name of an expected object."""
        known = self._find(value)
        if known is not None:
            return known
        base = _base_name(value)
        number = self._given[base] = self._given.get(base, 0) + 1
        name = base if number == 1 else f"{base} #{number}"
        self._known[id(value)] = (ExpectedObject(value), name)
        return name

    def of(self, value: object) -> str:
        """The name of an object of a call: that of an expected object, or "another ..."."""
        return self._find(value) or f"another {_base_name(value)}"

    def _find(self, value: object) -> str | None:
        kept, name = self._known.get(id(value), (None, ""))
        # The address may belong to another object by now.
        return name if kept is not None and kept.get() is value else None


def _base_name(value: object) -> str:
    if isinstance(value, type | FunctionType | CodeType):
        return describe_value(value)
    return f"{type(value).__qualname__} object"


class GuardExpressions:
    """Values that the guards of one code object depend on; every cache entry adds its own."""

    def __init__(self) -> None:
        self.names = ObjectNames()
        self._readers: dict[str, Reader] = {}
        self._wholes: dict[str, tuple[object, ...]] = {}
        """Guards that no tree expresses, by name: whether one holds is a value itself."""
        self.sources: dict[str, Source] = {}
        """Sources of numbers and tensors, by their expressions."""

    def test(self, prepared: Leaf | Ambient, scope: Scope) -> Tree:
        """Build the tree of one guard; ``scope`` is the call for which the guard was created."""
        try:
            if isinstance(prepared, Ambient):
                return _AMBIENT[prepared.guard.kind](self, prepared, scope)
            assert prepared.guard.source is not None
            with torch._C.DisableTorchFunction():  # no subclass or mode may observe the access
                return _LEAVES[prepared.guard.kind](self, prepared, scope)
        # A guard without a tree is evaluated by its predicate, and is one value of the page: true or false.
        except Exception:  # noqa: BLE001 - no tree expresses it, or a tensor lacks a property (sparse, nested)
            return self._as_it_is(prepared)

    def take(self, scope: Scope) -> dict[str, Atom]:
        """Read the values of a call; one that cannot be read is omitted, as the guards on it do not hold."""
        values: dict[str, Atom] = {}
        for name, reader in self._readers.items():
            # A guard on a value that cannot be read does not hold, and a missing value says just that.
            with contextlib.suppress(Exception):  # a source that cannot be resolved, or an error in user code
                values[name] = reader(scope)
        return values

    def read(self, name: str, reader: Reader) -> str:
        """Register the reader of a value; return the value's name."""
        self._readers.setdefault(name, reader)
        return name

    def of(self, source: Source, name: str, function: Callable[[Any], Atom]) -> str:
        """Register a function of the value at a source; ``name`` has ``{}`` for the source."""
        return self.read(name.format(expression(source)), lambda scope: _asking_nobody(function, source, scope))

    def of_type(self, source: Source, cls: type) -> Tree:
        """Build the test that the value's class is this one."""
        return trees.same(self.of(source, "type({})", lambda value: self.names.of(type(value))), self.names.give(cls))

    def _as_it_is(self, item: Leaf | Ambient) -> Tree:
        """Build the tree of a guard that has no expression: whether it holds is the value."""
        # Two different guards may have one text: the second gets a number. A guard of another entry
        # that is the same one (equal keys) keeps its name, so that both entries read one value.
        name = next(
            name
            for number in itertools.count(1)
            if self._wholes.setdefault(name := item.text if number == 1 else f"{item.text} #{number}", item.guard.key())
            == item.guard.key()
        )
        return trees.same(self.read(name, item.holds if isinstance(item, Ambient) else _holds_of(item)), True)


def _holds_of(leaf: Leaf) -> Reader:
    return lambda scope: evaluate_leaf(leaf, lambda source: fetch(source, scope))


class _NotExpressible(Exception):
    """A guard that no tree expresses."""


# --- guards on one value -----------------------------------------------------------------------


def _type_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    expected = prepared.strong_guard().expected
    assert isinstance(expected, type)
    return readings.of_type(_source(prepared), expected)


def _id_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    name = readings.of(_source(prepared), "id({})", readings.names.of)
    return trees.same(name, readings.names.give(fetch(_source(prepared), scope)))


def _function_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    value = fetch(_source(prepared), scope)
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        return _id_match(readings, prepared, scope)
    same_code = trees.same(
        readings.of(_source(prepared), "id({}.__code__)", lambda value: readings.names.of(value.__code__)),
        readings.names.give(code),
    )
    if not isinstance(value, FunctionType):
        return same_code
    return trees.every([readings.of_type(_source(prepared), FunctionType), same_code])


def _constant_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    """None, True, False, numbers, texts; what holds such (a tuple, a dtype) is compared by how it is spelled."""
    value, source = prepared.guard.expected, _source(prepared)
    if isinstance(value, _ATOMS) and type(value) in _ATOMS:
        _atom(value)
        readings.sources[expression(source)] = source
        return trees.same(readings.of(source, "{}", _atom), value)
    return trees.same(readings.of(source, "repr({})", spelled), spelled(value))


def _nan_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    if isinstance(prepared.guard.expected, complex):
        raise _NotExpressible
    value = trees.read(readings.of(_source(prepared), "{}", _atom))
    return {"op": "isnan", "of": [value]}


def _length(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    source, value = _source(prepared), fetch(_source(prepared), scope)
    if isinstance(value, dict):
        return _dict_length(readings, prepared, scope)
    return trees.every([readings.of_type(source, type(value)), _has_length(readings, prepared)])


def _has_length(readings: GuardExpressions, prepared: Leaf) -> Tree:
    return trees.same(readings.of(_source(prepared), "len({})", _length_of), cast("int", prepared.guard.expected))


def _length_of(value: Any) -> int:
    return dict.__len__(value) if isinstance(value, dict) else len(value)


def _is_dict(readings: GuardExpressions, prepared: Leaf) -> Tree:
    name = readings.of(_source(prepared), "isinstance({}, dict)", lambda value: isinstance(value, dict))
    return trees.same(name, True)


def _dict_length(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    return trees.every([_is_dict(readings, prepared), _has_length(readings, prepared)])


def _dict_keys(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    keys = trees.same(readings.of(_source(prepared), "list({})", _spelled_keys), spelled(prepared.guard.expected))
    if isinstance(fetch(_source(prepared), scope), MappingProxyType):
        return keys
    return trees.every([_is_dict(readings, prepared), keys])


def _spelled_keys(value: Any) -> str:
    return spelled(tuple(value) if isinstance(value, MappingProxyType) else tuple(dict.keys(value)))


def _contains(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    item, wanted = cast("tuple[Any, bool]", prepared.strong_guard().expected)
    # The name becomes a format string with one field, for the source: braces of the item are doubled.
    name = spelled(item).replace("{", "{{").replace("}", "}}") + " in {}"
    in_set = prepared.guard.kind is GuardKind.SET_CONTAINS

    def held(value: Any) -> bool:
        return has_member(value, item) if in_set else item in value

    found = trees.same(readings.of(_source(prepared), name, held), wanted)
    return trees.every([readings.of_type(_source(prepared), type(fetch(_source(prepared), scope))), found])


def _hasattr(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    name, wanted = cast("tuple[str, bool]", prepared.guard.expected)
    found = readings.of(_source(prepared), f"hasattr({{}}, {name!r})", lambda value: hasattr(value, name))
    return trees.same(found, wanted)


def _tensor_match(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    source, facts = _source(prepared), prepared.guard.expected
    tensor = fetch(source, scope)
    assert isinstance(facts, TensorFacts) and isinstance(tensor, torch.Tensor)
    readings.sources[expression(source)] = source
    wanted = [
        readings.of_type(source, type(tensor)),
        *(trees.same(readings.of(source, name, function), function(tensor)) for name, function in _OF_TENSORS),
    ]
    for name, expected, read in (("size", facts.sizes, _size), ("stride", facts.strides, _stride)):
        # What is dynamic in this entry is read all the same, and so are the dims of a call with more of them.
        names = [
            readings.of(source, f"{{}}.{name}()[{dim}]", _at(read, dim))
            for dim in range(max(model.FORETOLD_DIMS, tensor.dim()))
        ]
        wanted += [
            trees.same(size, number) for size, number in zip(names, expected or (), strict=False) if number is not None
        ]
    return trees.every(wanted)


_OF_TENSORS: tuple[tuple[str, Callable[[torch.Tensor], Atom]], ...] = (
    ("keys({})", lambda tensor: str(torch._C._dispatch_keys(tensor))),
    ("{}.dtype", lambda tensor: str(tensor.dtype)),
    ("{}.device", lambda tensor: str(tensor.device)),
    ("{}.requires_grad", lambda tensor: tensor.requires_grad),
    ("{}.dim()", lambda tensor: tensor.dim()),
)


def _size(tensor: torch.Tensor, dim: int) -> int:
    return tensor.shape[dim]


def _asking_nobody(function: Callable[[Any], Atom], source: Source, scope: Scope) -> Atom:
    """Looking at a tensor is not for its class, nor for a function mode."""
    with torch._C.DisableTorchFunction():
        return function(fetch(source, scope))


def _stride(tensor: torch.Tensor, dim: int) -> int:
    return tensor.stride()[dim]


def _at(read: Callable[[torch.Tensor, int], int], dim: int) -> Callable[[torch.Tensor], int]:
    return lambda tensor: read(tensor, dim)


def _tensor_property(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    name, wanted = cast("tuple[str, bool]", prepared.guard.expected)
    read = functools.partial(tensor_property, name=name)
    return trees.same(readings.of(_source(prepared), f"{{}}.{spelled_property(name)}", read), wanted)


def _dimension_marking(readings: GuardExpressions, prepared: Leaf, scope: Scope) -> Tree:
    marks = prepared.guard.expected
    assert isinstance(marks, TensorMarks)
    if marks.present:
        raise _NotExpressible
    absent = marks.absent
    is_marked = readings.of(_source(prepared), "marked({})", lambda value: any(hasattr(value, mark) for mark in absent))
    return trees.same(is_marked, False)


def _source(prepared: Leaf) -> Source:
    assert prepared.guard.source is not None
    return prepared.guard.source


def _atom(value: object) -> Atom:
    if type(value) not in _ATOMS or (isinstance(value, str) and len(value) > _LONGEST):
        raise Unreadable
    return value  # type: ignore[return-value]


def spelled(value: object) -> str:
    """A constant as text: the same for two constants that guards take for the same, and for no others.

    Raises:
        _NotExpressible: it is none, or too long.
    """
    text = _spelled(value)
    if len(text) > _LONGEST:
        raise _NotExpressible
    return text


def _spelled(value: object) -> str:
    if type(value) in (tuple, slice):
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else cast("tuple[object, ...]", value)
        return f"{type(value).__name__}({', '.join(map(_spelled, parts))})"
    # The order of a set depends on hashes, and those of texts on the process: equal sets are
    # spelled alike when sorted.
    if type(value) is frozenset:
        return f"frozenset({', '.join(sorted(map(_spelled, value)))})"
    if type(value) in _PLAIN or isinstance(value, enum.Enum):
        return repr(value)
    raise _NotExpressible


_LEAVES: dict[GuardKind, Callable[[GuardExpressions, Leaf, Scope], Tree]] = {
    GuardKind.TYPE_MATCH: _type_match,
    GuardKind.ID_MATCH: _id_match,
    GuardKind.FUNCTION_MATCH: _function_match,
    GuardKind.NONE_MATCH: _constant_match,
    GuardKind.BOOL_MATCH: _constant_match,
    GuardKind.EQUALS_MATCH: _constant_match,
    GuardKind.NAN_MATCH: _nan_match,
    GuardKind.SEQUENCE_LENGTH: _length,
    GuardKind.DICT_LENGTH: _dict_length,
    GuardKind.DICT_KEYS: _dict_keys,
    GuardKind.DICT_CONTAINS: _contains,
    GuardKind.SET_CONTAINS: _contains,
    GuardKind.HASATTR: _hasattr,
    GuardKind.TENSOR_MATCH: _tensor_match,
    GuardKind.TENSOR_PROPERTY: _tensor_property,
    GuardKind.DIMENSION_MARKING: _dimension_marking,
}


# --- guards on the process, and on several values ----------------------------------------------


def _global_state(readings: GuardExpressions, prepared: Ambient, scope: Scope) -> Tree:
    wanted = []
    for name, value in _state().items():
        process_value = readings.read(f"process.{name}", lambda _, name=name: _state()[name])  # type: ignore[misc]
        wanted.append(trees.same(process_value, value))
    return trees.every(wanted)


def _state() -> dict[str, Atom]:
    guard: Any = torch_guards.GlobalStateGuard()
    if not hasattr(guard, "__getstate__"):  # an older torch tells nothing but whether it changed
        raise _NotExpressible
    state = json.loads(guard.__getstate__())
    state["default_dtype"] = str(torch.get_default_dtype())
    return {name: value if type(value) in _ATOMS else json.dumps(value) for name, value in state.items()}


def _mode_stack(readings: GuardExpressions, prepared: Ambient, scope: Scope) -> Tree:
    def class_names(name: Callable[[object], str]) -> str:
        return ", ".join(name(type(mode)) for mode in torch.overrides._get_current_function_mode_stack())

    return trees.same(
        readings.read("process.modes", lambda _: class_names(readings.names.of)), class_names(readings.names.give)
    )


def _no_aliasing(readings: GuardExpressions, prepared: Ambient, scope: Scope) -> Tree:
    sources = cast("tuple[Source, ...]", prepared.guard.expected)
    # n values are n * (n - 1) / 2 pairs, each of which is a value of the page: from 21 pairs on,
    # all are one value.
    if len(sources) > 6:
        raise _NotExpressible
    pairs = [_are_one(readings, first, second) for first, second in itertools.combinations(sources, 2)]
    return trees.every([trees.same(pair, False) for pair in pairs])


def _aliasing(readings: GuardExpressions, prepared: Ambient, scope: Scope) -> Tree:
    assert prepared.guard.source is not None
    return trees.same(_are_one(readings, prepared.guard.source, cast("Source", prepared.guard.expected)), True)


def _are_one(readings: GuardExpressions, first: Source, second: Source) -> str:
    # Sorted: ``a is b`` and ``b is a`` are one value.
    name = " is ".join(sorted((expression(first), expression(second))))
    return readings.read(name, lambda scope: fetch(first, scope) is fetch(second, scope))


def _shapes(readings: GuardExpressions, prepared: Ambient, scope: Scope) -> Tree:
    assert isinstance(prepared.guard.expected, ShapeGuards)
    parts = prepared.guard.expected.expressions
    readable, fetchers = readable_conditions(prepared.guard.expected, scope)
    with torch._C.DisableTorchFunction():  # which other guards on the process ask about
        texts = [
            _shape(readings, part, scope)
            if part == text
            else trees.same(readings.read(part, _evaluated(text, fetchers, bool)), True)
            for part, text in zip(parts, readable, strict=True)
        ]
    return trees.every(texts or [trees.constant(True)])


def _shape(readings: GuardExpressions, part: str, scope: Scope) -> Tree:
    tree = trees.parse(part)
    # The ragged size of a nested tensor is no number, and a page cannot compute with it.
    if tree is None or not all(type(_evaluated(name)(scope)) in _ATOMS for name in trees.reads(tree)):
        return trees.same(readings.read(part, _evaluated(part, write=bool)), True)
    for name in trees.reads(tree):
        readings.read(name, _evaluated(name))
    return tree


def _evaluated(
    text: str, fetchers: Mapping[str, Any] = MappingProxyType({}), write: Callable[[Any], Atom] | None = None
) -> Reader:
    # Once; the reader runs for every call whose values are taken.
    code = compile(ast.parse(text, mode="eval"), "<a guard on shapes>", "eval")
    write = write or _number
    return lambda scope: write(eval(code, {**shape_names(scope), **fetchers, "L": scope.locals, "G": scope.globals}))


def _number(value: object) -> Atom:
    return value if type(value) in _ATOMS else int(cast("Any", value))  # type: ignore[return-value]


_AMBIENT: dict[GuardKind, Callable[[GuardExpressions, Ambient, Scope], Tree]] = {
    GuardKind.GLOBAL_STATE: _global_state,
    GuardKind.TORCH_FUNCTION_MODE_STACK: _mode_stack,
    GuardKind.NO_TENSOR_ALIASING: _no_aliasing,
    GuardKind.NO_OBJECT_ALIASING: _no_aliasing,
    GuardKind.OBJECT_ALIASING: _aliasing,
    GuardKind.SHAPE_ENV: _shapes,
}
